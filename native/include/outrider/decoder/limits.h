// Limits: the largest sizes that are taken. No product of those that belong together leaves 64 bits.
#pragma once

#include <cstdint>

namespace outrider {

constexpr int kMostLayers = 1 << 16;
constexpr int kMostFeatures = 1 << 24;  // of a weight, and so of a row of activations
constexpr int kMostExperts = 1 << 10;   // so that rows, each once for each of its experts, fit into int32
/// Of a vocabulary: the sampler adds up their masses in 64 bits.
constexpr int64_t kMostTokens = (1 << 22) - 1;
constexpr int kMostTaps = 32;         // of a short convolution
constexpr int kMostRank = 1 << 10;    // of an adapter's changes
constexpr int kMostRows = 1 << 20;    // of a pass
constexpr int kMostBlocks = 1 << 25;  // of a KV cache, and of one sequence: its positions are int32
/// Entries of a batch's block tables: there is one for each sequence and block.
constexpr int kMostTableEntries = 1 << 28;

}  // namespace outrider
