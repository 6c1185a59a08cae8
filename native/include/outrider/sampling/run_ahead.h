// RunAhead: how far one sequence is to run along its own draws; run_ahead takes all of a batch there.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/decoder/batch.h"
#include "outrider/decoder/decoder.h"
#include "outrider/sampling/sampler.h"

namespace outrider {

/// The draws from one asked row of a batch on.
struct RunAhead {
    const SamplingState* state;
    std::vector<int32_t> chain;  // the tokens between the state's history and the first draw
    int count;                   // at most so many draws
    TokenMasks masks{};          // of the first draw; with one, there is no second
    /// The run ends after the draw at which the estimated probability that a larger model makes all of the
    /// same draws falls below this. Only on CPUs, and only in runs of more than one draw.
    double least_chance = 0;
};

/// One pass over the batch, then one pass after another of a row per sequence that still draws, each row
/// holding the token drawn before it. Returns each run's tokens: run i starts at the batch's i-th asked row,
/// and ends early where nothing can be drawn. The states stay as they are; keys and values are written up to
/// the last draw but one that was asked for.
///
/// The host waits once, for all tokens. They are those of as many single passes and draws, to the bit. Throws
/// std::invalid_argument, naming the field, before anything is written: where the runs are not as many as the
/// asked rows, a run does not start at its row's position or draws on from another row than its sequence's
/// last, there is no room for its tokens, it is guided, or a token id is outside the vocabulary.
std::vector<std::vector<int32_t>> run_ahead(Decoder& decoder, const Batch& batch, Sampler& sampler,
                                            const std::vector<RunAhead>& runs);

}  // namespace outrider
