#include "cuda/primitives/instructions.cuh"
#include "cuda/primitives/launch.cuh"
#include "cuda/product/row_tiles.h"

namespace outrider::cuda {
namespace {

/// Arranges one row's inputs of one K tile. Neighbouring threads have neighbouring rows, which are written
/// side by side.
struct ArrangeRow {
    Activations from;
    int rows;
    RowTiles to;
    int padded_rows;

    __device__ void operator()(int64_t index) const {
        const int row = static_cast<int>(index % padded_rows);
        const int k_tile = static_cast<int>(index / padded_rows);
        Words<4> cores[RowTiles::kCores] = {};
        if (row < rows) {
            read(row, k_tile, cores);
        }
        const int in_tile = row % to.tile_rows;
        char* const first = to.at(row / to.tile_rows, k_tile) +
                            in_tile / 8 * (RowTiles::kCores * RowTiles::kCoreBytes) + in_tile % 8 * 16;
#pragma unroll
        for (int core = 0; core < RowTiles::kCores; ++core) {
            *reinterpret_cast<Words<4>*>(first + core * RowTiles::kCoreBytes) = cores[core];
        }
    }

    __device__ void read(int row, int k_tile, Words<4> (&cores)[RowTiles::kCores]) const {
        const char* const inputs =
            static_cast<const char*>(from.data) + (row * from.stride + int64_t{k_tile} * kTileInputs) * 2;
#pragma unroll
        for (int eight = 0; eight < 4; ++eight) {
            const auto words = load_words<4, true>(inputs + eight * 16);
#pragma unroll
            for (int core = 0; core < RowTiles::kCores; ++core) {
                cores[core].words[eight] = words.words[core];
            }
        }
    }
};

}  // namespace

void arrange_rows(const Stream& stream, const Activations& from, int rows, const RowTiles& to) {
    const int padded_rows = (rows + to.tile_rows - 1) / to.tile_rows * to.tile_rows;
    for_each(stream, int64_t{padded_rows} * to.k_tiles, ArrangeRow{from, rows, to, padded_rows});
}

}  // namespace outrider::cuda
