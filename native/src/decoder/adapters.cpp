#include "outrider/decoder/adapters.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "outrider/decoder/limits.h"
#include "require_range.h"
#include "source_values.h"

namespace outrider {
namespace {

int64_t aligned(int64_t size, int64_t alignment) {
    return (size + alignment - 1) / alignment * alignment;
}

/// Rounds to nearest, ties to even; `value` must be finite.
uint16_t to_bf16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

std::vector<float> finite_values(const std::string& what, const SourceMatrix& source) {
    std::vector<float> values = to_float32(source.values, source.type, 0, source.shape[0] * source.shape[1]);
    if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) {
        throw std::invalid_argument(what + " holds NaN or an infinity");
    }
    return values;
}

int64_t place_in_down(const LowRankWeight& weight, int64_t rank, int64_t input) {
    const int64_t block = rank / kRankAlignment * (weight.in_stride / kDownBlock) + input / kDownBlock;
    return (block * kRankAlignment + rank % kRankAlignment) * kDownBlock + input % kDownBlock;
}

int64_t place_in_up(const LowRankWeight& weight, int64_t rank, int64_t column) {
    return (column / kUpAlignment * weight.rank + rank) * kUpAlignment + column % kUpAlignment;
}

/// Throws unless the shapes are [rank, in_features] and [out_features, rank] of the weight.
void require_shapes(const AdapterUpdate& update, const MatrixRows& place) {
    const std::string what = "weight \"" + update.name + "\"";
    if (update.down.shape.size() != 2 || update.up.shape.size() != 2) {
        throw std::invalid_argument(what + ": down and up must have two dimensions");
    }
    require_range(what + ": the rank of down", update.down.shape[0], 1, kMostRank);
    require_range(what + ": the rank of up", update.up.shape[1], update.down.shape[0], update.down.shape[0]);
    const int64_t in_features = place.matrix->in_features();
    require_range(what + ": the inputs of down", update.down.shape[1], in_features, in_features);
    require_range(what + ": the outputs of up", update.up.shape[0], place.all, place.all);
}

}  // namespace

PreparedAdapter Adapters::prepare(float scale, const std::vector<AdapterUpdate>& updates) {
    if (!std::isfinite(scale)) {
        throw std::invalid_argument("scale is " + std::to_string(scale) + "; it must be a finite number");
    }
    PreparedAdapter prepared;
    for (const AdapterUpdate& update : updates) {
        for (const MatrixRows& place : weights_.find_linear(update.name)) {
            require_shapes(update, place);
            prepared.updates.push_back(prepare(scale, update, place));
        }
    }
    return prepared;
}

int Adapters::add(const PreparedAdapter& prepared) {
    auto adapter = std::make_shared<Adapter>();
    for (const PreparedAdapter::Update& from : prepared.updates) {
        Update update{.down = upload(from.down), .up = upload(from.up), .weight = from.weight};
        update.weight.down = update.down.data();
        update.weight.up = update.up.data();
        (*adapter)[from.matrix].push_back(std::move(update));
    }
    const std::lock_guard lock(changing_);
    const auto free = std::find(adapters_.begin(), adapters_.end(), nullptr);
    const auto number = static_cast<int>(free - adapters_.begin());
    if (free == adapters_.end()) {
        adapters_.emplace_back();
    }
    adapters_[number] = std::move(adapter);
    return number;
}

void Adapters::remove(int number) {
    std::shared_ptr<const Adapter> removed;  // freed after the lock is released
    const std::lock_guard lock(changing_);
    removed = std::move(at(number));
}

std::shared_ptr<const Adapters::Adapter>& Adapters::at(int number) {
    require_range("adapters", number, kNoAdapter, static_cast<int>(adapters_.size()) - 1);
    if (number == kNoAdapter || adapters_[number] == nullptr) {
        throw std::invalid_argument("adapters: number " + std::to_string(number) + " was removed");
    }
    return adapters_[number];
}

PreparedAdapter::Update Adapters::prepare(float scale, const AdapterUpdate& source,
                                          const MatrixRows& place) const {
    const std::string what = "weight \"" + source.name + "\"";
    const std::vector<float> down = finite_values(what + ": down", source.down);
    const std::vector<float> up = finite_values(what + ": up", source.up);
    const int64_t rank = source.down.shape[0];
    const int64_t inputs = source.down.shape[1];
    const int64_t columns = place.rows;
    const LowRankWeight weight = {.format = format_,
                                  .in_stride = aligned(inputs, kActivationAlignment),
                                  .up_stride = aligned(columns, kUpAlignment),
                                  .rank = static_cast<int>(aligned(rank, kRankAlignment)),
                                  .scale = scale,
                                  .first_column = place.first_row,
                                  .columns = static_cast<int>(columns)};
    std::vector<float> padded_down(weight.rank * weight.in_stride);
    std::vector<float> padded_up(weight.rank * weight.up_stride);
    for (int64_t row = 0; row < rank; ++row) {
        for (int64_t input = 0; input < inputs; ++input) {
            padded_down[place_in_down(weight, row, input)] = down[row * inputs + input];
        }
        for (int64_t column = 0; column < columns; ++column) {
            padded_up[place_in_up(weight, row, column)] = up[(place.first_of_weight + column) * rank + row];
        }
    }
    return {place.matrix, weight, rounded(padded_down), rounded(padded_up)};
}

std::vector<char> Adapters::rounded(const std::vector<float>& values) const {
    std::vector<char> bytes(values.size() * size_of(format_));
    if (format_ == Format::f32) {
        std::memcpy(bytes.data(), values.data(), bytes.size());
    } else {
        std::transform(values.begin(), values.end(), reinterpret_cast<uint16_t*>(bytes.data()), to_bf16);
    }
    return bytes;
}

DeviceBuffer<char> Adapters::upload(const std::vector<char>& bytes) {
    DeviceBuffer<char> buffer(device_, bytes.size());
    device_->upload(buffer.data(), bytes.data(), bytes.size());
    return buffer;
}

void Adapters::select(const Batch& batch) {
    groups_.clear();
    const std::lock_guard lock(changing_);
    for (int row = 0; row < batch.num_rows; ++row) {
        const int adapter = batch.adapters[batch.sequences[row]];
        if (adapter == kNoAdapter) {
            continue;
        }
        auto group = std::find_if(groups_.begin(), groups_.end(),
                                  [&](const Group& each) { return each.number == adapter; });
        if (group == groups_.end()) {
            group = groups_.insert(
                group, {.number = adapter, .adapter = at(adapter), .rows = {}, .device_rows = nullptr});
        }
        group->rows.push_back(row);
    }
    upload_rows();
    reserve_inner();
}

/// Makes room for the values of the matrix that has most of them: a pass allocates nothing.
void Adapters::reserve_inner() {
    size_t size = 0;
    for (const Group& group : groups_) {
        int64_t most = 0;
        for (const auto& [matrix, updates] : *group.adapter) {
            most = std::max(most, std::accumulate(updates.begin(), updates.end(), int64_t{0},
                                                  [](int64_t sum, const Update& update) {
                                                      return sum + update.weight.rank;
                                                  }));
        }
        size += group.rows.size() * most;
    }
    if (size > 0) {
        inner_.reserve(device_, std::bit_ceil(size));
    }
}

/// Uploads the rows of all groups in one copy.
void Adapters::upload_rows() {
    std::vector<int32_t> rows;
    for (const Group& group : groups_) {
        rows.insert(rows.end(), group.rows.begin(), group.rows.end());
    }
    if (rows.empty()) {
        return;
    }
    rows_.reserve(device_, std::bit_ceil(rows.size()));  // a power of two, so that it seldom grows
    device_->upload(rows_.data(), rows.data(), rows.size() * sizeof(int32_t));
    const int32_t* place = rows_.data();
    for (Group& group : groups_) {
        group.device_rows = std::exchange(place, place + group.rows.size());
    }
}

void Adapters::narrow(int num_rows) {
    for (Group& group : groups_) {  // a group's rows are in ascending order
        group.rows.erase(std::lower_bound(group.rows.begin(), group.rows.end(), num_rows), group.rows.end());
    }
}

bool Adapters::are_selected() const {
    return std::any_of(groups_.begin(), groups_.end(),
                       [](const Group& group) { return !group.rows.empty(); });
}

bool Adapters::change(const PackedWeight& matrix) const {
    return std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) {
        return !group.rows.empty() && group.adapter->contains(&matrix);
    });
}

void Adapters::apply(const Activations& input, const PackedWeight& matrix, float* out, int64_t out_stride) {
    LowRank op{.input = input, .out = out, .out_stride = out_stride, .updates = {}};
    for (const Group& group : groups_) {
        const auto found = group.adapter->find(&matrix);
        if (group.rows.empty() || found == group.adapter->end()) {
            continue;
        }
        for (const Update& update : found->second) {
            const auto count = static_cast<int>(group.rows.size());
            op.updates.push_back({.weight = &update.weight, .rows = group.device_rows, .count = count});
        }
    }
    if (op.updates.empty()) {
        return;
    }
    float* inner = inner_.data();
    for (LowRankUpdate& update : op.updates) {
        update.inner = std::exchange(inner, inner + int64_t{update.count} * update.weight->rank);
    }
    device_->low_rank(op);
}

}  // namespace outrider
