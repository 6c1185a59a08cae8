#include "outrider/decoder/short_head.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

constexpr int32_t kNoToken = -1;
constexpr size_t kRowsAtOnce = 256;

/// The kind of the short head's matrix: the kind of the whole head or, if that is a grouped one, int8, to
/// which its rows are quantised again.
WeightKind short_kind(const WeightKind& whole) {
    return whole.groups == Grouping{} ? whole : WeightKind{WeightFormat::int8};
}

}  // namespace

ShortHead::ShortHead(std::shared_ptr<Device> device, const PackedWeight& whole, int num_tokens)
    : device_(std::move(device)),
      whole_(whole),
      matrix_(device_->make_weight(short_kind(whole.kind()), num_tokens, whole.in_features())),
      token_ids_(num_tokens, kNoToken),
      columns_(device_, num_tokens, whole.out_features()),
      values_(device_, kRowsAtOnce * whole.in_features()) {}

void ShortHead::choose(const std::vector<int32_t>& token_ids) {
    const std::vector<int32_t> before = std::exchange(token_ids_, token_ids);
    if (before == token_ids_) {
        return;
    }
    columns_.set(token_ids_);
    for (size_t first = 0, end; first < token_ids_.size(); first = end) {
        end = first;
        while (end < token_ids_.size() && token_ids_[end] != before[end] && end - first < kRowsAtOnce) {
            ++end;
        }
        if (end > first) {
            take(first, end);
        } else {
            ++end;
        }
    }
}

/// Reads rows of the whole head by embedding their tokens.
void ShortHead::take(size_t first, size_t end) {
    const auto count = static_cast<int>(end - first);
    device_->embed({.table = &whole_,
                    .token_ids = columns_.token_ids() + first,
                    .residual = values_.data(),
                    .rows = count});
    std::vector<float> values(static_cast<size_t>(count) * whole_.in_features());
    device_->download(values.data(), values_.data(), values.size() * sizeof(float));
    matrix_->store(static_cast<int>(first), count, values.data(), SourceType::f32);
}

}  // namespace outrider
