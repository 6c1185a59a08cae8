#include "cuda/embed.h"
#include "cuda/values.cuh"

namespace outrider::cuda {
namespace {

struct EmbedValue {
    Embed op;
    WeightView table;

    __device__ void operator()(int64_t index) const {
        const int64_t row = index / table.in_features;
        const int64_t k = index % table.in_features;
        op.residual[index] =
            load(table.data, table.format, k * table.out_features + op.token_ids[row]) * op.scale;
    }
};

}  // namespace

void embed(const Stream& stream, const Embed& op, const WeightView& table) {
    for_each(stream, op.rows * table.in_features, EmbedValue{op, table});
}

}  // namespace outrider::cuda
