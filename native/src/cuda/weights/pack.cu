#include "cuda/primitives/launch.cuh"
#include "cuda/weights/pack.h"
#include "cuda/weights/tiles.cuh"

namespace outrider::cuda {
namespace {

/// Rows of a matrix to be packed.
struct Rows {
    const void* values;  // [rows, in_features]
    SourceType type;
    WeightView weight;
    int64_t first_row;

    __device__ float value(int64_t row, int64_t input) const {
        return load_source(values, type, row * weight.in_features + input);
    }
};

struct PackValue {
    Rows from;
    int64_t rows;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index % rows;
        const int64_t input = index / rows;
        reinterpret_cast<float*>(from.weight.data)[input * from.weight.out_features + from.first_row + row] =
            from.value(row, input);
    }
};

/// Computes the scale with which a feature's weights fill the range of the format.
struct ScaleFeature {
    Rows from;
    float largest_number;

    __device__ void operator()(int64_t row) const {
        float largest = 0.0f;
        float nothing = 0.0f;  // NaN if a weight is not finite
        for (int64_t input = 0; input < from.weight.in_features; ++input) {
            const float magnitude = fabsf(from.value(row, input));
            largest = magnitude > largest ? magnitude : largest;
            nothing += magnitude * 0.0f;
        }
        from.weight.scales[from.first_row + row] = largest / largest_number + nothing;
    }
};

template <typename Tile>
struct PackTile {
    Rows from;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / k_tiles_of(from.weight);
        const int64_t first = index % k_tiles_of(from.weight) * kTileInputs;
        float weights[kTileInputs];
        for (int input = 0; input < kTileInputs; ++input) {
            weights[input] = first + input < from.weight.in_features ? from.value(row, first + input) : 0.0f;
        }
        const int64_t feature = from.first_row + row;
        const float scale = Tile::kLargest > 0.0f ? from.weight.scales[feature] : 0.0f;
        Tile::store(tile_of<Tile>(from.weight, feature, first), static_cast<int>(feature % kTileFeatures),
                    weights, scale > 0.0f ? 1.0f / scale : 0.0f);
    }
};

}  // namespace

size_t packed_bytes(const WeightView& weight) {
    if (weight.format == WeightFormat::f32) {
        return weight.out_features * weight.in_features * sizeof(float);
    }
    return with_tile(weight.format,
                     [&](auto tile) { return m_tiles_of(weight) * k_tiles_of(weight) * tile.kBytes; });
}

bool has_feature_scales(WeightFormat format) {
    return format != WeightFormat::f32 && with_tile(format, [](auto tile) { return tile.kLargest > 0.0f; });
}

void pack(const Stream& stream, const void* values, SourceType type, int64_t rows, const WeightView& weight,
          int64_t first_row) {
    const Rows from{values, type, weight, first_row};
    if (weight.format == WeightFormat::f32) {
        for_each(stream, rows * weight.in_features, PackValue{from, rows});
    } else {
        with_tile(weight.format, [&](auto tile) {
            using Tile = decltype(tile);
            if (Tile::kLargest > 0.0f) {
                for_each(stream, rows, ScaleFeature{from, Tile::kLargest});
            }
            for_each(stream, rows * k_tiles_of(weight), PackTile<Tile>{from});
        });
    }
    stream.hold_next();  // a product reads weights before it waits for this kernel
}

}  // namespace outrider::cuda
