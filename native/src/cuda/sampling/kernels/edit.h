// Edit: what is done to one logit of a row.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/sampling_row.h"

namespace outrider::cuda {

constexpr int32_t kNoToken = -1;

/// Changes to one logit, made in the order of the fields. No two of a row are of the same logit.
struct Edit {
    int32_t row;
    int32_t token_id;        // kNoToken: nothing is done, as the token is not known yet
    Counted counted{};       // for the penalties
    float repeating = 0.0f;  // what it loses for a repetition
    bool biased = false;
    float bias = 0.0f;
    int64_t masked = 0;  // draws, with this one, in which it is masked
};

/// The edits of a row with this index.
std::vector<Edit> edits_of(const SamplingRow& row, int32_t index);

}  // namespace outrider::cuda
