// The matrix products of experts on tensor cores: ordinary products with the rows of each expert.
#pragma once

#include "cuda/experts/expert_table.h"
#include "cuda/product/sliced_product.cuh"
#include "cuda/product/wide_product.cuh"

namespace outrider::cuda {

/// The rows of each expert are known only on the device. So as many blocks are launched as could be needed,
/// and each finds its tile of rows, or none. Kernel is one of the products on tensor cores.
template <typename Kernel>
struct ExpertTiles {
    static constexpr int kThreads = Kernel::kThreads;
    static constexpr int kBlocksPerMultiprocessor = Kernel::kBlocksPerMultiprocessor;
    static constexpr int kRows = Kernel::kBlockRows;

    ExpertTable table;
    int m_blocks;

    /// The blocks of one tile are consecutive.
    __device__ void operator()(const Block& block) const {
        int64_t tile = block.index / m_blocks;
        for (int index = 0; index < table.count; ++index) {
            const int64_t tiles = (table.rows(index) + kRows - 1) / kRows;
            if (tile < tiles) {
                multiply({block.index % m_blocks, block.thread, block.shared}, index, tile);
                return;
            }
            tile -= tiles;
        }
    }

    __device__ void multiply(const Block& block, int index, int64_t tile) const {
        const Product op = rows_of(table.product(index), tile * kRows);
        if constexpr (requires(Kernel kernel) { kernel.items; }) {
            const Kernel kernel{op, table.weight(index), m_blocks, m_blocks};
            kernel(block);
        } else {
            const Kernel kernel{op, table.weight(index)};
            kernel(block);
        }
    }

    /// The part of a product with one block's rows.
    __device__ static Product rows_of(Product op, int64_t first) {
        op.input.data = static_cast<char*>(op.input.data) + first * op.input.stride * 2;
        op.out += first * op.out_stride;
        op.rows = op.rows - first < kRows ? static_cast<int>(op.rows - first) : kRows;
        return op;
    }
};

template <typename Kernel>
void launch_expert_tiles(const Stream& stream, const ExpertTable& table) {
    const int64_t m_blocks = (m_tiles_of(table.kind) + Kernel::kBlockMTiles - 1) / Kernel::kBlockMTiles;
    const int64_t blocks = m_blocks * table.most_tiles(Kernel::kBlockRows);
    for_each_block(stream, blocks, Kernel::kSharedBytes,
                   ExpertTiles<Kernel>{table, static_cast<int>(m_blocks)});
}

/// Chooses one of three shapes by the average number of rows per expert; all give the same bits.
template <typename Tile>
void expert_tile_products(const Stream& stream, const ExpertTable& table) {
    const int64_t average = table.all_rows() / table.count;
    if (average > kMostSlicedRows) {
        launch_expert_tiles<WideProduct<Tile, kFewRows<Tile, 8>>>(stream, table);
    } else if (average > kNTileRows / 2) {
        launch_expert_tiles<SlicedProduct<Tile, SlicedShape{2, 2}>>(stream, table);
    } else {
        launch_expert_tiles<SlicedProduct<Tile, SlicedShape{2, 1}>>(stream, table);
    }
}

}  // namespace outrider::cuda
