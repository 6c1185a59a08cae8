#include "outrider/weights/weight_slots.h"

#include <algorithm>
#include <stdexcept>

#include "source_values.h"

namespace outrider {
namespace {

std::string text_of(const std::vector<int64_t>& shape) {
    std::string text = "[";
    for (size_t axis = 0; axis < shape.size(); ++axis) {
        text += (axis > 0 ? ", " : "") + std::to_string(shape[axis]);
    }
    return text + "]";
}

}  // namespace

void WeightSlots::add_rows(const std::string& name, PackedWeight& matrix, int first_row, int rows) {
    add({.name = name, .shape = {rows, matrix.in_features()}, .matrix = &matrix, .first_row = first_row});
}

void WeightSlots::add_vector(const std::string& name, float* to, int size, float factor) {
    add({.name = name, .shape = {size}, .vector = to, .factor = factor});
}

void WeightSlots::add(Slot slot) {
    slot_of_name_[slot.name] = slots_.size();
    slots_.push_back(std::move(slot));
}

WeightSlots::Slot& WeightSlots::find(const std::string& name) {
    const auto found = slot_of_name_.find(name);
    if (found == slot_of_name_.end()) {
        throw std::invalid_argument("this configuration has no weight named \"" + name + "\"");
    }
    return slots_[found->second];
}

WeightSlots::Slot& WeightSlots::find_matrix(const std::string& name) {
    Slot& slot = find(name);
    if (!slot.matrix) {
        throw std::invalid_argument("weight \"" + name + "\" is no matrix");
    }
    return slot;
}

void WeightSlots::load(const std::string& name, const std::vector<int64_t>& shape, const void* values,
                       SourceType type) {
    Slot& slot = find(name);
    if (shape != slot.shape) {
        throw std::invalid_argument("weight \"" + name + "\" has shape " + text_of(shape) + "; it must be " +
                                    text_of(slot.shape));
    }
    store(slot, 0, shape[0], values, type);
}

void WeightSlots::load_rows(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape,
                            const void* values, SourceType type) {
    store(find_next(name, first_row, shape), first_row, shape[0], values, type);
}

void WeightSlots::load_blocks(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape,
                              const BlockType& type, const uint8_t* blocks) {
    const int64_t in_features = find_matrix(name).shape[1];
    if (shape[1] != type.row_bytes(in_features)) {
        throw std::invalid_argument("weight \"" + name + "\" has rows of " + std::to_string(shape[1]) +
                                    " bytes; in " + type.name + " they must have " +
                                    std::to_string(type.row_bytes(in_features)));
    }
    Slot& slot = find_next(name, first_row, {shape[0], in_features});
    slot.matrix->store_blocks(static_cast<int>(slot.first_row + first_row), static_cast<int>(shape[0]), type,
                              blocks);
    slot.loaded_rows = first_row + shape[0];
}

/// Returns the slot of a weight whose next rows start at `first_row`.
WeightSlots::Slot& WeightSlots::find_next(const std::string& name, int64_t first_row,
                                          const std::vector<int64_t>& shape) {
    Slot& slot = find(name);
    if (first_row != 0 && first_row != slot.loaded_rows) {
        throw std::invalid_argument("weight \"" + name + "\": first_row is " + std::to_string(first_row) +
                                    "; it must be 0, or " + std::to_string(slot.loaded_rows) +
                                    ", the first that is missing");
    }
    const bool same_width = shape.size() == slot.shape.size() &&
                            std::equal(shape.begin() + 1, shape.end(), slot.shape.begin() + 1);
    if (!same_width || shape[0] > slot.shape[0] - first_row) {
        throw std::invalid_argument("weight \"" + name + "\": rows from " + std::to_string(first_row) +
                                    " on have shape " + text_of(shape) + "; they must be of " +
                                    text_of(slot.shape));
    }
    return slot;
}

void WeightSlots::store(Slot& slot, int64_t first_row, int64_t rows, const void* values, SourceType type) {
    if (slot.matrix) {
        slot.matrix->store(static_cast<int>(slot.first_row + first_row), static_cast<int>(rows), values,
                           type);
    } else {
        std::vector<float> converted = to_float32(values, type, 0, rows);
        for (float& value : converted) {
            value *= slot.factor;
        }
        device_->upload(slot.vector + first_row, converted.data(), converted.size() * sizeof(float));
    }
    slot.loaded_rows = first_row + rows;
}

std::vector<std::pair<std::string, PackedBytes>> WeightSlots::packed() {
    std::vector<std::pair<std::string, PackedBytes>> memory;
    for (const Slot& slot : slots_) {
        if (!slot.matrix) {
            memory.push_back({slot.name, {slot.vector, slot.shape[0] * sizeof(float)}});
        } else if (slot.first_row == 0) {
            memory.push_back({slot.name, slot.matrix->packed()});
        }
        if (!memory.back().second.data) {
            throw std::invalid_argument("device " + device_->name() + " holds its weights in its own memory");
        }
    }
    return memory;
}

void WeightSlots::mark_loaded() {
    for (Slot& slot : slots_) {
        slot.loaded_rows = slot.shape[0];
    }
}

std::vector<std::string> WeightSlots::missing() const {
    std::vector<std::string> names;
    for (const Slot& slot : slots_) {
        if (slot.loaded_rows < slot.shape[0]) {
            names.push_back(slot.name);
        }
    }
    return names;
}

int64_t WeightSlots::vector_bytes() const {
    int64_t total = 0;
    for (const Slot& slot : slots_) {
        total += slot.vector ? slot.shape[0] * static_cast<int64_t>(sizeof(float)) : 0;
    }
    return total;
}

MatrixRows WeightSlots::rows_of(const std::string& name) {
    const Slot& slot = find_matrix(name);
    return {slot.matrix, slot.first_row, static_cast<int>(slot.shape[0])};
}

const PackedWeight& WeightSlots::matrix(const std::string& name) {
    return *find_matrix(name).matrix;
}

}  // namespace outrider
