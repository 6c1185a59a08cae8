#include "cuda/sampling/kernels/edit.h"

#include <algorithm>
#include <unordered_map>

namespace outrider::cuda {
namespace {

/// Collects the edits of one row, at most one per token.
class RowEdits {
  public:
    explicit RowEdits(int32_t row) : row_(row) {}

    Edit& at(int32_t token_id) {
        const auto [place, added] = index_.try_emplace(token_id, edits_.size());
        if (added) {
            edits_.push_back({row_, token_id});
        }
        return edits_[place->second];
    }

    const std::vector<Edit>& edits() const { return edits_; }

  private:
    int32_t row_;
    std::vector<Edit> edits_;
    std::unordered_map<int32_t, size_t> index_;
};

}  // namespace

std::vector<Edit> edits_of(const SamplingRow& row, int32_t index) {
    RowEdits edits(index);
    const SamplingParams& params = row.params();
    if (params.penalises()) {
        row.for_each_counted([&](int32_t id, const Counted& counted) { edits.at(id).counted = counted; });
    }
    row.for_each_repeating([&](int32_t id, float penalty) { edits.at(id).repeating = penalty; });
    for (const auto& [id, bias] : params.logit_bias) {
        edits.at(id).biased = true;
        edits.at(id).bias = bias;
    }
    row.for_each_forbidden([&](int32_t id, int64_t num_draws) {
        edits.at(id).masked = std::max(edits.at(id).masked, num_draws);
    });
    return edits.edits();
}

}  // namespace outrider::cuda
