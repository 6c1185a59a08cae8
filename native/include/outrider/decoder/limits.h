// Limits: the largest allowed sizes. No product of sizes that occur together overflows 64 bits.
#pragma once

#include <cstdint>

namespace outrider {

constexpr int kMostLayers = 1 << 16;
constexpr int kMostFeatures = 1 << 24;  // inputs or outputs of a weight, values of a row of activations
constexpr int kMostExperts = 1 << 10;   // rows * experts per row fits into int32
/// The tokens of a vocabulary: the sampler adds up their masses in 64 bits.
constexpr int64_t kMostTokens = (1 << 22) - 1;
constexpr int kMostStreams = 8;       // residual streams that an attached drafter reads
constexpr int kMostTurning = 128;     // numbers of a latent key that turn
constexpr int kMostTaps = 32;         // taps of a short convolution
constexpr int kMostRank = 1 << 10;    // rank of an adapter's update
constexpr int kMostRows = 1 << 20;    // rows of a pass
constexpr int kMostBlocks = 1 << 25;  // blocks of a KV cache, and of one sequence: its positions are int32
/// The entries of a batch's block tables: one for each sequence and block.
constexpr int kMostTableEntries = 1 << 28;

}  // namespace outrider
