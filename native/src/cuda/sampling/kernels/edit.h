// Edit: the changes to one logit of a row.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/sampling_row.h"

namespace outrider::cuda {

constexpr int32_t kNoToken = -1;

/// Changes to one logit, made in the order of the fields. A row has at most one Edit for each logit.
struct Edit {
    int32_t row;
    int32_t token_id;        // kNoToken: does nothing, as the token is not known yet
    Counted counted{};       // for the penalties
    float repeating = 0.0f;  // DRY's penalty
    bool biased = false;
    float bias = 0.0f;
    int64_t masked = 0;  // number of draws, this one included, in which it is masked
};

/// The edits of a row, which has this index in the batch.
std::vector<Edit> edits_of(const SamplingRow& row, int32_t index);

}  // namespace outrider::cuda
