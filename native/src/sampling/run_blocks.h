// run_blocks: the draws of a drafter that predicts several tokens in one pass (DFlash, arXiv 2602.06036; P-EAGLE, arXiv
// 2602.01469).
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/decoder/batch.h"
#include "outrider/decoder/decoder.h"
#include "outrider/sampling/sampler.h"
#include "sampling/runners.h"

namespace outrider {

/// The rows of a block after a context that makes so many predictions.
inline int block_rows(const FeatureBlock& block, int count) {
    return block.first_predicts ? count : count + 1;
}

/// Computes a block for each run, and draws from one row of each block after another. With a context, the batch's rows are
/// stored as such, and a block begins with the token of the row that its run starts from. Else masks continue the batch's
/// rows in the same pass. Returns the runs' tokens, in the order of `runners`.
std::vector<std::vector<int32_t>> run_blocks(Decoder& decoder, const Batch& batch, Sampler& sampler,
                                             const Runners& runners);

}  // namespace outrider
