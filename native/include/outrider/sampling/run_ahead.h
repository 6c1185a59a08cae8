// RunAhead: one sequence's run of several draws, each from a pass over the token drawn before.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/decoder/batch.h"
#include "outrider/decoder/decoder.h"
#include "outrider/sampling/sampler.h"

namespace outrider {

/// The draws that start at one requested row of a batch.
struct RunAhead {
    const SamplingState* state;
    std::vector<int32_t> chain;  // the tokens between the state's history and the first draw
    int count;                   // the most draws
    TokenMasks masks{};          // for the first draw; with a mask, there is only one draw
    /// The run ends after the draw at which the estimated probability that a larger model makes all of the
    /// same draws falls below this. Supported only on CPUs, and only in runs of more than one draw.
    double least_chance = 0;
};

/// Runs one pass over the batch, then further passes with one row per sequence that still draws, each row
/// holding the token drawn before it. Returns each run's tokens: run i starts at the batch's i-th requested
/// row, and ends early if nothing can be drawn. The states do not change; keys and values are written up to
/// the last draw but one that was requested.
///
/// A drafter that predicts blocks computes all rows of a run in one pass, and draws from them one after another. Of a
/// drafter with a context, a run may start only from the last row of its sequence, and writes keys and values of one row
/// more, or two. One with a confidence ends runs by that, before the draw, on every device.
///
/// The host waits once, for all tokens. They equal, to the bit, those of single passes and draws. Throws
/// std::invalid_argument, naming the field, before anything is written: if there is not one run per requested
/// row, a run does not start at its row's position or continues from a row that is not the last of its
/// sequence, there is no room for its tokens, its state uses guidance, or a token id is outside the
/// vocabulary.
std::vector<std::vector<int32_t>> run_ahead(Decoder& decoder, const Batch& batch, Sampler& sampler,
                                            const std::vector<RunAhead>& runs);

}  // namespace outrider
