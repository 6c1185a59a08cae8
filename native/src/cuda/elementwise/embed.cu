#include "cuda/elementwise/embed.h"
#include "cuda/primitives/launch.cuh"
#include "cuda/weights/tiles.cuh"

namespace outrider::cuda {
namespace {

struct EmbedPlainValue {
    Embed op;
    WeightView table;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / table.in_features;
        const int64_t input = index % table.in_features;
        op.residual[index] =
            reinterpret_cast<const float*>(table.data)[input * table.out_features + op.token_ids[row]] *
            op.scale;
    }
};

template <typename Tile>
struct EmbedValue {
    Embed op;
    WeightView table;

    __device__ void operator()(int64_t index) const {
        const int64_t token_id = op.token_ids[index / table.in_features];
        const int64_t input = index % table.in_features;
        const float value =
            Tile::value(tile_of<Tile>(table, token_id, input), static_cast<int>(token_id % kTileFeatures),
                        static_cast<int>(input % kTileInputs));
        op.residual[index] = (Tile::kLargest > 0.0f ? value * table.scales[token_id] : value) * op.scale;
    }
};

}  // namespace

void embed(const Stream& stream, const Embed& op, const WeightView& table) {
    const int64_t count = op.rows * table.in_features;
    if (table.format == WeightFormat::f32) {
        for_each(stream, count, EmbedPlainValue{op, table});
        return;
    }
    with_tile(table.format,
              [&](auto tile) { for_each(stream, count, EmbedValue<decltype(tile)>{op, table}); });
}

}  // namespace outrider::cuda
