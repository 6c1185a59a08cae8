// Draw: the argmax of values plus Gumbel noise.
#pragma once

#include <cstdint>

#include "outrider/sampling/noise.h"

namespace outrider {

/// The id with the greatest value + noise in float32, the lowest winning ties.  # values: [count]
/// `best_id` is the lowest id of the largest value, which must be finite.
int32_t draw(const float* values, int count, int32_t best_id, const NoiseKey& key);

/// Like `draw`, but id i uses the noise of id noise_ids[i]; the value of an id without a partner must be
/// minus infinity. # noise_ids, values: [count]
int32_t draw_as(const int32_t* noise_ids, const float* values, int count, int32_t best_id,
                const NoiseKey& key);

/// The margin by which value + noise of `drawn` exceeds that of any other id.  # values: [count]
float margin(const float* values, int count, int32_t drawn, const NoiseKey& key);

/// The margin of a draw without noise.
float greedy_margin(const float* values, int count, int32_t drawn);

}  // namespace outrider
