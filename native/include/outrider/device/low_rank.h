// LowRank: the operation that adds adapters' low-rank updates to a matrix product.
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

/// The update that an adapter adds to the product of some rows with one matrix: scale * up^T * (down *
/// input), as in arXiv 2106.09685, section 4.1, where `down` is A and `up` is B transposed. Both are stored
/// in the order in which they are read. Device memory.
struct LowRankWeight {
    Format format = Format::f32;
    // [rank / kRankAlignment, in_stride / kDownBlock, kRankAlignment, kDownBlock]
    const void* down = nullptr;
    const void* up = nullptr;  // [up_stride / kUpAlignment, rank, kUpAlignment]
    int64_t in_stride = 0;     // elements, the stride of a row of activations
    int64_t up_stride = 0;     // elements
    int rank = 0;
    float scale = 1.0f;
    int first_column = 0;  // the first column of the matrix's product that changes
    int columns = 0;
};

/// One matrix's update, and the rows that it applies to.
struct LowRankUpdate {
    const LowRankWeight* weight = nullptr;
    const int32_t* rows = nullptr;  // [count], device memory
    int count = 0;                  // at least 1
    float* inner = nullptr;  // [count, weight->rank], down * input of the rows; not shared with other updates
};

/// out[row] += the update of each of its rows; no two updates change the same values. All weights have one
/// format.
struct LowRank {
    Activations input;
    float* out = nullptr;  // [rows, out_stride]
    int64_t out_stride = 0;
    std::vector<LowRankUpdate> updates;
};

}  // namespace outrider
