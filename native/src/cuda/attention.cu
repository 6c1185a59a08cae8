// Paged attention with a running softmax (Milakov, Gimelshein, arXiv 1805.02867), chunk by chunk.
#include "cuda/attention.h"
#include "cuda/elementary.cuh"
#include "cuda/kv_block.cuh"
#include "cuda/values.cuh"

namespace outrider::cuda {
namespace {

/// The slots of a chunk that a row attends to: first ... end - 1.
struct Slots {
    int64_t first;
    int64_t end;
};

/// One dimension of one head's output. A chunk is one KV block, so chunks begin at absolute multiples of
/// kBlockSize whatever the window. Each thread computes all scores by itself.
struct AttentionValue {
    Attention op;

    __device__ void operator()(int64_t index) const {
        const int64_t head_dim = op.cache.head_dim;
        const int64_t dim = index % head_dim;
        const int64_t head = index / head_dim % op.num_heads;
        const int64_t row = index / head_dim / op.num_heads;
        if (op.places.positions[row] == kInactive) {
            return;
        }
        const float value = attend(row, head, dim);
        store(op.out.data, op.out.format, row * op.out.stride + head * head_dim + dim, value);
    }

    __device__ float attend(int64_t row, int64_t head, int64_t dim) const {
        const int64_t kv_head = head / (op.num_heads / op.cache.num_kv_heads);
        const float* query =
            op.qkv + (row * (op.num_heads + 2 * op.cache.num_kv_heads) + head) * op.cache.head_dim;
        const int64_t last = op.places.positions[row];
        const int64_t first = op.window > 0 && last >= op.window ? last - op.window + 1 : 0;
        float maximum = bit_cast<float>(0xFF800000u);
        float sum = 0.0f;
        float total = 0.0f;
        for (int64_t chunk = first / kBlockSize; chunk <= last / kBlockSize; ++chunk) {
            const KvBlock block = find_block(op.cache, table_of(op.places, row)[chunk], kv_head);
            const int64_t start = chunk * kBlockSize;
            const Slots slots{first > start ? first - start : 0,
                              last - start < kBlockSize ? last + 1 - start : kBlockSize};
            float scores[kBlockSize];
            score(query, block, scores);
            const float raised = cap_scores(slots, maximum, scores);
            const float shrink = exponential(maximum - raised);
            maximum = raised;
            sum *= shrink;
            total *= shrink;
            for (int64_t slot = slots.first; slot < slots.end; ++slot) {
                const float weight = exponential(scores[slot] - maximum);
                sum += weight;
                total = fmaf(weight, load(op.cache.data, format_of(op.cache), block.value(slot, dim)), total);
            }
        }
        return total / sum;
    }

    /// The scores of all slots; those that the row does not attend to may be NaN, and are not looked at.
    __device__ void score(const float* query, const KvBlock& block, float* scores) const {
        for (int slot = 0; slot < kBlockSize; ++slot) {
            scores[slot] = 0.0f;
        }
        for (int64_t dim = 0; dim < op.cache.head_dim; ++dim) {
            for (int slot = 0; slot < kBlockSize; ++slot) {
                const float key = load(op.cache.data, format_of(op.cache), block.key(slot, dim));
                scores[slot] = fmaf(query[dim], key, scores[slot]);
            }
        }
    }

    /// Caps the scores attended to and returns the larger of their maximum and the given one.
    __device__ float cap_scores(const Slots& slots, float maximum, float* scores) const {
        for (int64_t slot = slots.first; slot < slots.end; ++slot) {
            if (op.softcap != 0.0f) {
                scores[slot] = soft_capped(scores[slot], op.softcap);
            }
            maximum = maximum > scores[slot] ? maximum : scores[slot];
        }
        return maximum;
    }
};

}  // namespace

void attention(const Stream& stream, const Attention& op) {
    for_each(stream, static_cast<int64_t>(op.places.rows) * op.num_heads * op.cache.head_dim,
             AttentionValue{op});
}

}  // namespace outrider::cuda
