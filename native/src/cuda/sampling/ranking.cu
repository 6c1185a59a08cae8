// By a bitonic sort (Batcher, "Sorting networks and their applications", AFIPS 1968): whatever the values,
// each step compares the same places.
#include "cuda/launch.cuh"
#include "cuda/sampling/ranking.h"

namespace outrider::cuda {
namespace {

struct PlaceToken {
    DrawBatch batch;
    Stage stage;

    __device__ void operator()(int64_t index) const {
        const int64_t id = index % batch.ranked_size;
        const float value =
            id < batch.vocab_size ? batch.values(stage, index / batch.ranked_size)[id] : -kInfinity;
        batch.ranked[index] = {value, static_cast<int32_t>(id)};
    }
};

/// Brings two places at a distance into the order that their run of places has.
struct CompareTokens {
    DrawBatch batch;
    int64_t run;
    int64_t distance;

    __device__ void operator()(int64_t index) const {
        const int64_t pairs = batch.ranked_size / 2;
        const int64_t pair = index % pairs;
        const int64_t place = pair / distance * 2 * distance + pair % distance;
        Scored* ranked = batch.ranked + index / pairs * batch.ranked_size;
        const Scored first = ranked[place];
        const Scored second = ranked[place + distance];
        const bool best_first = (place & run) == 0;
        if (best_first ? is_better(second, first) : is_better(first, second)) {
            ranked[place] = second;
            ranked[place + distance] = first;
        }
    }
};

}  // namespace

void rank(const Stream& stream, const DrawBatch& batch, Stage stage) {
    for_each(stream, batch.num_rows * batch.ranked_size, PlaceToken{batch, stage});
    for (int64_t run = 2; run <= batch.ranked_size; run *= 2) {
        for (int64_t distance = run / 2; distance > 0; distance /= 2) {
            for_each(stream, batch.num_rows * batch.ranked_size / 2, CompareTokens{batch, run, distance});
        }
    }
}

}  // namespace outrider::cuda
