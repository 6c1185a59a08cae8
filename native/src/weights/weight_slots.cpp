#include "outrider/weights/weight_slots.h"

#include <algorithm>
#include <optional>
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

void WeightSlots::add_rows(const NamedPart& part, PackedWeight& matrix, int first_row) {
    add({.part = part,
         .shape = {part.source_size(), matrix.in_features()},
         .matrix = &matrix,
         .first_row = first_row});
}

void WeightSlots::add_vector(const NamedPart& part, float* to, float factor) {
    add({.part = part, .shape = {part.source_size()}, .vector = to, .factor = factor});
}

void WeightSlots::add(Slot slot) {
    slots_of_name_[slot.part.name].push_back(slots_.size());
    slots_.push_back(std::move(slot));
}

std::vector<WeightSlots::Slot*> WeightSlots::find(const std::string& name) {
    const auto found = slots_of_name_.find(name);
    if (found == slots_of_name_.end()) {
        throw std::invalid_argument("this configuration has no weight named \"" + name + "\"");
    }
    std::vector<Slot*> slots;
    for (const size_t index : found->second) {
        slots.push_back(&slots_[index]);
    }
    return slots;
}

WeightSlots::Slot& WeightSlots::find_matrix(const std::string& name) {
    Slot& slot = *find(name).front();
    if (!slot.matrix) {
        throw std::invalid_argument("weight \"" + name + "\" is no matrix");
    }
    return slot;
}

void WeightSlots::load(const std::string& name, const std::vector<int64_t>& shape, const void* values,
                       SourceType type) {
    for (Slot* const slot : find(name)) {
        if (shape != slot->shape) {
            throw std::invalid_argument("weight \"" + name + "\" has shape " + text_of(shape) +
                                        "; it must be " + text_of(slot->shape));
        }
        store(*slot, 0, shape[0], values, type);
    }
}

void WeightSlots::load_rows(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape,
                            const void* values, SourceType type) {
    for (Slot* const slot : find_next(name, first_row, shape)) {
        store(*slot, first_row, shape[0], values, type);
    }
}

void WeightSlots::load_blocks(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape,
                              const BlockType& type, const uint8_t* blocks) {
    const int64_t in_features = find_matrix(name).shape[1];
    if (shape[1] != type.row_bytes(in_features)) {
        throw std::invalid_argument("weight \"" + name + "\" has rows of " + std::to_string(shape[1]) +
                                    " bytes; in " + type.name + " they must have " +
                                    std::to_string(type.row_bytes(in_features)));
    }
    for (Slot* const slot : find_next(name, first_row, {shape[0], in_features})) {
        const Held held = held_of(*slot, first_row, shape[0]);
        if (held.rows > 0) {
            slot->matrix->store_blocks(static_cast<int>(slot->first_row + held.place),
                                       static_cast<int>(held.rows), type, blocks + held.skipped * shape[1]);
        }
        slot->loaded_rows = first_row + shape[0];
    }
}

/// Returns the slots of a weight whose next rows start at `first_row`.
std::vector<WeightSlots::Slot*> WeightSlots::find_next(const std::string& name, int64_t first_row,
                                                       const std::vector<int64_t>& shape) {
    const std::vector<Slot*> slots = find(name);
    const Slot& slot = *slots.front();
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
    return slots;
}

WeightSlots::Held WeightSlots::held_of(const Slot& slot, int64_t first_row, int64_t rows) {
    const int64_t first = std::max<int64_t>(first_row, slot.part.first);
    const int64_t end = std::min<int64_t>(first_row + rows, slot.part.first + slot.part.size);
    return {first - first_row, first - slot.part.first, end - first};
}

void WeightSlots::store(Slot& slot, int64_t first_row, int64_t rows, const void* values, SourceType type) {
    const Held held = held_of(slot, first_row, rows);
    if (held.rows > 0 && slot.matrix) {
        const size_t row_bytes = slot.shape[1] * size_of(type);
        slot.matrix->store(static_cast<int>(slot.first_row + held.place), static_cast<int>(held.rows),
                           static_cast<const char*>(values) + held.skipped * row_bytes, type);
    } else if (held.rows > 0) {
        std::vector<float> converted = to_float32(values, type, held.skipped, held.rows);
        for (float& value : converted) {
            value *= slot.factor;
        }
        device_->upload(slot.vector + held.place, converted.data(), converted.size() * sizeof(float));
    }
    slot.loaded_rows = first_row + rows;
}

std::vector<std::pair<std::string, PackedBytes>> WeightSlots::packed() {
    std::vector<std::pair<std::string, PackedBytes>> memory;
    for (const Slot& slot : slots_) {
        if (!slot.matrix) {
            memory.push_back({slot.part.name, {slot.vector, slot.part.size * sizeof(float)}});
        } else if (slot.first_row == 0) {
            memory.push_back({slot.part.name, slot.matrix->packed()});
        }
        if (!memory.back().second.data) {
            throw std::invalid_argument("device " + device_->name() + " holds its weights in its own memory");
        }
    }
    return memory;
}

std::vector<std::pair<WeightKind, int>> WeightSlots::measure_many_rows() {
    std::vector<std::pair<WeightKind, int>> measured;
    for (const Slot& slot : slots_) {
        const std::optional<int> rows = slot.matrix ? device_->measure_many_rows(*slot.matrix) : std::nullopt;
        if (rows) {
            measured.emplace_back(slot.matrix->kind(), *rows);
        }
    }
    return measured;
}

void WeightSlots::mark_loaded() {
    for (Slot& slot : slots_) {
        slot.loaded_rows = slot.shape[0];
    }
}

std::vector<std::string> WeightSlots::missing() const {
    std::vector<std::string> names;
    for (const Slot& slot : slots_) {
        const bool is_named =
            !names.empty() && names.back() == slot.part.name;  // it may be in several places
        if (slot.loaded_rows < slot.shape[0] && !is_named) {
            names.push_back(slot.part.name);
        }
    }
    return names;
}

int64_t WeightSlots::vector_bytes() const {
    int64_t total = 0;
    for (const Slot& slot : slots_) {
        total += slot.vector ? slot.part.size * static_cast<int64_t>(sizeof(float)) : 0;
    }
    return total;
}

std::vector<MatrixRows> WeightSlots::rows_of(const std::string& name) {
    find_matrix(name);
    std::vector<MatrixRows> runs;
    for (const Slot* const slot : find(name)) {
        runs.push_back(
            {slot->matrix, slot->first_row, slot->part.size, slot->part.first, slot->part.source_size()});
    }
    return runs;
}

const PackedWeight& WeightSlots::matrix(const std::string& name) {
    return *find_matrix(name).matrix;
}

}  // namespace outrider
