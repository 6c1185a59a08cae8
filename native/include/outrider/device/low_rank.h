// LowRank: the operation by which adapters change what matrices make of some rows.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/device/operations.h"

namespace outrider {

/// Ranks and columns are padded with zeros to multiples of these.
constexpr int kRankAlignment = 8;
constexpr int kUpAlignment = 128;
constexpr int kDownBlock = 32;  // inputs
static_assert(kActivationAlignment % kDownBlock == 0, "a row of activations is whole blocks");

/// What an adapter adds to the product with some rows of one matrix: scale * up^T * (down * input), the
/// update of arXiv 2106.09685, section 4.1, whose A is `down` and whose B, transposed, is `up`. Both lie as
/// they are read, from one end to the other. Device memory.
struct LowRankWeight {
    Format format = Format::f32;
    // [rank / kRankAlignment, in_stride / kDownBlock, kRankAlignment, kDownBlock]
    const void* down = nullptr;
    const void* up = nullptr;  // [up_stride / kUpAlignment, rank, kUpAlignment]
    int64_t in_stride = 0;     // elements, as many as a row of activations has
    int64_t up_stride = 0;     // elements
    int rank = 0;
    float scale = 1.0f;
    int first_column = 0;  // of the matrix's product, where the change begins
    int columns = 0;
};

/// One matrix's change, and the rows that it is for.
struct LowRankUpdate {
    const LowRankWeight* weight = nullptr;
    const int32_t* rows = nullptr;  // [count], device memory
    int count = 0;                  // at least 1
    float* inner = nullptr;  // [count, weight->rank], of this update alone: what `down` makes of the rows
};

/// out[row] += what an update adds, for each of its rows; no two updates change the same values. Their weights
/// are of one format.
struct LowRank {
    Activations input;
    float* out = nullptr;  // [rows, out_stride]
    int64_t out_stride = 0;
    std::vector<LowRankUpdate> updates;
};

}  // namespace outrider
