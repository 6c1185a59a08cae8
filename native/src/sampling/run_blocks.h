// run_blocks: the draws of a drafter that predicts several tokens in one pass (DFlash, arXiv 2602.06036).
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/decoder/batch.h"
#include "outrider/decoder/decoder.h"
#include "outrider/sampling/sampler.h"
#include "sampling/runners.h"

namespace outrider {

/// The rows of a block that makes so many predictions.
inline int block_rows(const FeatureBlock& block, int count) { return block.first_predicts ? count : count + 1; }

/// Stores the batch's rows as the drafter's context, computes a block after each row that a run starts from, which has
/// the token after that row, and draws from one row of each block after another. Returns the runs' tokens, in the order of
/// `runners`.
std::vector<std::vector<int32_t>> run_blocks(Decoder& decoder, const Batch& batch, Sampler& sampler,
                                             const Runners& runners);

}  // namespace outrider
