// Paged attention with a running softmax (Milakov, Gimelshein, arXiv 1805.02867) over spans of the cache,
// which begin at absolute multiples of kSpan positions. What a span gives a row depends on that row alone,
// and a row's spans are merged in their order: by the block that computes them all, or by a kernel behind
// blocks that compute one each. Both do the same operations, so that the number of rows may decide which it
// is.
#include <algorithm>

#include "cuda/attention.h"
#include "cuda/elementary.cuh"
#include "cuda/kv_block.cuh"
#include "cuda/reduce.cuh"
#include "cuda/values.cuh"
#include "cuda/warp.cuh"

namespace outrider::cuda {
namespace {

constexpr int kChunks = 8;  // of a span: blocks of the cache, each a warp's
constexpr int kSpan = kChunks * kBlockSize;
constexpr int kGroupRows = 4;
constexpr int kGroupHeads = 4;
constexpr int kQueries = kGroupRows * kGroupHeads;
constexpr int kDimsAtOnce = 2 * kWarp;
constexpr int kFewQueries = 4;              // of one row
constexpr int64_t kMostPartials = 1 << 10;  // rows times spans: beyond, there are blocks enough without

__device__ inline float larger(float left, float right) {
    return left > right ? left : right;
}

struct Larger {
    __device__ float operator()(float left, float right) const { return larger(left, right); }
};

__device__ inline float minus_infinity() {
    return bit_cast<float>(0xFF800000u);
}

/// A softmax so far: the maximum of the scores, and the sum of the exponentials of what they are below it.
struct Softmax {
    float maximum;
    float sum;
};

/// What two parts of a softmax are multiplied by when they become one.
struct Merge {
    float maximum;
    float first;
    float second;

    __device__ Merge(const Softmax& before, const Softmax& part)
        : maximum(larger(before.maximum, part.maximum)),
          first(exponential(before.maximum - maximum)),
          second(exponential(part.maximum - maximum)) {}

    __device__ float of(float before, float part) const { return fmaf(before, first, part * second); }
};

/// Nothing of the span is attended to.
__device__ inline bool is_empty(const Softmax& part) {
    return part.maximum == minus_infinity();
}

/// Where a row's attention begins; it ends at the row itself.
__device__ inline int first_position(const Attention& op, int position) {
    return op.window > 0 && position >= op.window ? position - op.window + 1 : 0;
}

/// What a span gives one head of a row: a Softmax, and for each dimension the sum of weighted values.
__device__ inline float* partial(const Attention& op, int spans, int64_t row, int64_t head, int span) {
    return op.scratch + ((row * op.num_heads + head) * spans + span) * (op.cache.head_dim + 2);
}

/// Rows of one sequence behind one another, and heads that share keys and values.
struct Group {
    int64_t first_row;
    int position;  // of the first row
    int rows;
    int first_head;
    int heads;
    int kv_head;

    __device__ int queries() const { return rows * heads; }
    __device__ int64_t row(int query) const { return first_row + query / heads; }
    __device__ int head(int query) const { return first_head + query % heads; }
    __device__ int position_of(int query) const { return position + query / heads; }
    __device__ int last() const { return position + rows - 1; }
};

/// A block's shared memory.
struct Scratch {
    float* queries;    // [head_dim, kQueries]
    float* totals;     // [kQueries, head_dim], of the spans so far
    float* weights;    // [kChunks, kQueries, kBlockSize]
    float* values;     // [kChunks, kQueries, kDimsAtOnce]
    float* maxima;     // [kChunks, kQueries]
    float* sums;       // [kChunks, kQueries]
    Softmax* softmax;  // [kQueries], of the spans so far

    __device__ Scratch(char* shared, int head_dim)
        : queries(reinterpret_cast<float*>(shared)),
          totals(queries + head_dim * kQueries),
          weights(totals + kQueries * head_dim),
          values(weights + kChunks * kQueries * kBlockSize),
          maxima(values + kChunks * kQueries * kDimsAtOnce),
          sums(maxima + kChunks * kQueries),
          softmax(reinterpret_cast<Softmax*>(sums + kChunks * kQueries)) {}

    static size_t bytes(int head_dim) {
        const size_t floats = 2 * static_cast<size_t>(head_dim) * kQueries +
                              kChunks * kQueries * (kBlockSize + kDimsAtOnce + 2) + 2 * kQueries;
        return floats * sizeof(float);
    }
};

/// One block attends with the rows of one group that has its first row here, if there is one.
template <KvFormat kFormat>
struct Attend {
    static constexpr int kThreads = kChunks * kWarp;
    static constexpr int kBlocksAtOnce = 2;

    Attention op;
    int spans;  // that have blocks of their own; 0: a block takes all

    __device__ void operator()(const Block& block) const {
        const int shares = spans > 0 ? spans : 1;
        const int64_t place = block.index / shares;
        const Group group =
            find_group(place / num_head_groups(), static_cast<int>(place % num_head_groups()));
        if (group.rows == 0) {
            return;
        }
        const int first = first_position(op, group.position) / kSpan;
        const int last = group.last() / kSpan;
        const int own = static_cast<int>(block.index % shares);
        if (spans > 0 && (own < first || own > last)) {
            return;
        }
        if (group.queries() <= kFewQueries) {
            attend<kFewQueries>(block, group, spans > 0 ? own : first, spans > 0 ? own : last);
        } else {
            attend<kQueries>(block, group, spans > 0 ? own : first, spans > 0 ? own : last);
        }
    }

    __host__ __device__ int heads_each() const { return op.num_heads / op.cache.num_kv_heads; }
    __host__ __device__ int groups_each() const { return (heads_each() + kGroupHeads - 1) / kGroupHeads; }
    __host__ __device__ int num_head_groups() const { return op.cache.num_kv_heads * groups_each(); }

    /// Groups end at absolute multiples of kGroupRows positions, so that each row knows by itself whether it
    /// begins one.
    __device__ Group find_group(int64_t row, int head_group) const {
        Group group{row, op.places.positions[row], 0, 0, 0, head_group / groups_each()};
        if (group.position == kInactive || (row > 0 && continues(row))) {
            return group;
        }
        group.rows = 1;
        while (row + group.rows < op.places.rows && continues(row + group.rows)) {
            ++group.rows;
        }
        const int skipped = head_group % groups_each() * kGroupHeads;
        group.first_head = group.kv_head * heads_each() + skipped;
        group.heads = heads_each() - skipped < kGroupHeads ? heads_each() - skipped : kGroupHeads;
        return group;
    }

    __device__ bool continues(int64_t row) const {
        const int position = op.places.positions[row];
        return position % kGroupRows != 0 && position == op.places.positions[row - 1] + 1 &&
               op.places.sequences[row] == op.places.sequences[row - 1];
    }

    template <int kCount>
    __device__ void attend(const Block& block, const Group& group, int first, int last) const {
        const Scratch scratch(block.shared, op.cache.head_dim);
        load_queries(block, group, scratch);
        for (int span = first; span <= last; ++span) {
            block.synchronize();
            attend_span<kCount>(block, group, scratch, span);
        }
        if (spans > 0) {
            return;
        }
        block.synchronize();
        for (int i = block.thread; i < group.queries() * op.cache.head_dim; i += kThreads) {
            const int query = i / op.cache.head_dim;
            const int dim = i % op.cache.head_dim;
            const int64_t index =
                group.row(query) * op.out.stride + group.head(query) * op.cache.head_dim + dim;
            store(op.out.data, op.out.format, index, scratch.totals[i] / scratch.softmax[query].sum);
        }
    }

    __device__ void load_queries(const Block& block, const Group& group, const Scratch& scratch) const {
        const int head_dim = op.cache.head_dim;
        const int64_t width = static_cast<int64_t>(op.num_heads + 2 * op.cache.num_kv_heads) * head_dim;
        for (int i = block.thread; i < kQueries * head_dim; i += kThreads) {
            const int query = i / head_dim;
            const int dim = i % head_dim;
            const bool is_there = query < group.queries();
            const float* heads = op.qkv + (is_there ? group.row(query) * width : 0);
            scratch.queries[dim * kQueries + query] =
                is_there ? heads[group.head(query) * head_dim + dim] : 0.0f;
            scratch.totals[i] = 0.0f;
        }
        if (block.thread < kQueries) {
            scratch.softmax[block.thread] = {minus_infinity(), 0.0f};
        }
    }

    template <int kCount>
    __device__ void attend_span(const Block& block, const Group& group, const Scratch& scratch,
                                int span) const {
        const int chunk = span * kChunks + block.warp();
        const int start = chunk * kBlockSize;
        const bool is_read = start <= group.last() && start + kBlockSize > first_position(op, group.position);
        KvBlock kv{};
        if (is_read) {
            kv = find_block(op.cache, table_of(op.places, group.first_row)[chunk], group.kv_head);
        }
        float scores[kCount];
        score<kCount>(block, group, scratch, kv, start, is_read, scores);
        block.synchronize();
        weigh<kCount>(block, group, scratch, kv, start, scores);
        for (int first = 0; first < op.cache.head_dim; first += kDimsAtOnce) {
            add_values<kCount>(block, group, scratch, kv, start, is_read, first);
            block.synchronize();
            merge_values(block, group, scratch, span, first);
            block.synchronize();
        }
        merge_softmax(block, group, scratch, span);
    }

    /// The scores of the lane's position, minus infinity where it is not attended to, and the chunk's maxima.
    template <int kCount>
    __device__ void score(const Block& block, const Group& group, const Scratch& scratch, const KvBlock& kv,
                          int start, bool is_read, float (&scores)[kCount]) const {
        for (int query = 0; query < kCount; ++query) {
            scores[query] = 0.0f;
        }
        const int slot = block.lane();
        if (is_read) {
#pragma unroll 8
            for (int dim = 0; dim < op.cache.head_dim; ++dim) {
                const float key = kv.key<kFormat>(slot, dim);
                const float* queries = scratch.queries + dim * kQueries;
#pragma unroll
                for (int query = 0; query < kCount; ++query) {
                    scores[query] = fmaf(queries[query], key, scores[query]);
                }
            }
        }
        const float scale = is_read ? kv.scale<kFormat>(true, slot) : 0.0f;
#pragma unroll
        for (int query = 0; query < kCount; ++query) {
            if (query < group.queries()) {
                scores[query] = finish(group, query, start + slot, scores[query] * scale);
                const float maximum = reduce_warp(scores[query], Larger());
                if (slot == 0) {
                    scratch.maxima[block.warp() * kQueries + query] = maximum;
                }
            }
        }
    }

    __device__ float finish(const Group& group, int query, int position, float score) const {
        if (!is_attended(group, query, position)) {
            return minus_infinity();
        }
        return op.softcap != 0.0f ? soft_capped(score, op.softcap) : score;
    }

    __device__ bool is_attended(const Group& group, int query, int position) const {
        const int last = group.position_of(query);
        return position <= last && position >= first_position(op, last);
    }

    /// Makes weights of scores, and their sums.
    template <int kCount>
    __device__ void weigh(const Block& block, const Group& group, const Scratch& scratch, const KvBlock& kv,
                          int start, const float (&scores)[kCount]) const {
        const int slot = block.lane();
#pragma unroll
        for (int query = 0; query < kCount; ++query) {
            if (query < group.queries()) {
                const bool attended = is_attended(group, query, start + slot);
                const float maximum = span_maximum(scratch, query);
                const float weight = attended ? exponential(scores[query] - maximum) : 0.0f;
                const float sum = reduce_warp(weight, Sum());
                const int64_t place = block.warp() * kQueries + query;
                scratch.weights[place * kBlockSize + slot] =
                    attended ? weight * kv.scale<kFormat>(false, slot) : 0.0f;
                if (slot == 0) {
                    scratch.sums[place] = sum;
                }
            }
        }
        synchronize_warp();
    }

    __device__ float span_maximum(const Scratch& scratch, int query) const {
        float maximum = scratch.maxima[query];
        for (int chunk = 1; chunk < kChunks; ++chunk) {
            maximum = larger(maximum, scratch.maxima[chunk * kQueries + query]);
        }
        return maximum;
    }

    /// The chunk's weighted values in some dimensions. A weight of zero adds nothing, whatever the value: it
    /// may be one that only other rows attend to. Those that no row does may be NaN, and are not read.
    template <int kCount>
    __device__ void add_values(const Block& block, const Group& group, const Scratch& scratch,
                               const KvBlock& kv, int start, bool is_read, int first) const {
        float sums[kCount][2] = {};
        const int low = first + block.lane();
        const int high = low + kWarp;
        const float* weights = scratch.weights + block.warp() * kQueries * kBlockSize;
        const int begin = larger_of(first_position(op, group.position) - start, 0);
        const int end = is_read ? smaller_of(group.last() + 1 - start, kBlockSize) : 0;
#pragma unroll 4
        for (int slot = begin; slot < end; ++slot) {
            const float value = low < op.cache.head_dim ? kv.value<kFormat>(slot, low) : 0.0f;
            const float other = high < op.cache.head_dim ? kv.value<kFormat>(slot, high) : 0.0f;
#pragma unroll
            for (int query = 0; query < kCount; ++query) {
                const float weight = query < group.queries() ? weights[query * kBlockSize + slot] : 0.0f;
                sums[query][0] = weight != 0.0f ? fmaf(weight, value, sums[query][0]) : sums[query][0];
                sums[query][1] = weight != 0.0f ? fmaf(weight, other, sums[query][1]) : sums[query][1];
            }
        }
        float* values = scratch.values + block.warp() * kQueries * kDimsAtOnce;
#pragma unroll
        for (int query = 0; query < kCount; ++query) {
            values[query * kDimsAtOnce + block.lane()] = sums[query][0];
            values[query * kDimsAtOnce + kWarp + block.lane()] = sums[query][1];
        }
    }

    /// Adds the chunks up in their order, and to what the spans before have given.
    __device__ void merge_values(const Block& block, const Group& group, const Scratch& scratch, int span,
                                 int first) const {
        for (int i = block.thread; i < group.queries() * kDimsAtOnce; i += kThreads) {
            const int query = i / kDimsAtOnce;
            const int dim = first + i % kDimsAtOnce;
            if (dim >= op.cache.head_dim) {
                continue;
            }
            float total = scratch.values[i];
            for (int chunk = 1; chunk < kChunks; ++chunk) {
                total += scratch.values[chunk * kQueries * kDimsAtOnce + i];
            }
            if (spans > 0) {
                partial(op, spans, group.row(query), group.head(query), span)[2 + dim] = total;
            } else if (const Softmax part = span_softmax(scratch, query); !is_empty(part)) {
                float& before = scratch.totals[query * op.cache.head_dim + dim];
                before = Merge(scratch.softmax[query], part).of(before, total);
            }
        }
    }

    __device__ Softmax span_softmax(const Scratch& scratch, int query) const {
        float sum = scratch.sums[query];
        for (int chunk = 1; chunk < kChunks; ++chunk) {
            sum += scratch.sums[chunk * kQueries + query];
        }
        return {span_maximum(scratch, query), sum};
    }

    __device__ void merge_softmax(const Block& block, const Group& group, const Scratch& scratch,
                                  int span) const {
        const int query = block.thread;
        if (query >= group.queries()) {
            return;
        }
        const Softmax part = span_softmax(scratch, query);
        if (spans > 0) {
            float* to = partial(op, spans, group.row(query), group.head(query), span);
            to[0] = part.maximum;
            to[1] = part.sum;
        } else if (!is_empty(part)) {
            Softmax& before = scratch.softmax[query];
            const Merge merge(before, part);
            before = {merge.maximum, merge.of(before.sum, part.sum)};
        }
    }

    __device__ static int larger_of(int left, int right) { return left > right ? left : right; }
    __device__ static int smaller_of(int left, int right) { return left < right ? left : right; }
};

/// One dimension of one head's output, of what each span has given.
struct MergeSpans {
    Attention op;
    int spans;

    __device__ void operator()(int64_t index) const {
        const int64_t head_dim = op.cache.head_dim;
        const int64_t dim = index % head_dim;
        const int64_t head = index / head_dim % op.num_heads;
        const int64_t row = index / head_dim / op.num_heads;
        const int position = op.places.positions[row];
        if (position == kInactive) {
            return;
        }
        Softmax softmax{minus_infinity(), 0.0f};
        float total = 0.0f;
        for (int span = first_position(op, position) / kSpan; span <= position / kSpan; ++span) {
            const float* from = partial(op, spans, row, head, span);
            const Softmax part{from[0], from[1]};
            if (!is_empty(part)) {
                const Merge merge(softmax, part);
                total = merge.of(total, from[2 + dim]);
                softmax = {merge.maximum, merge.of(softmax.sum, part.sum)};
            }
        }
        store(op.out.data, op.out.format, row * op.out.stride + head * head_dim + dim, total / softmax.sum);
    }
};

int spans_of(int max_blocks) {
    return (max_blocks + kChunks - 1) / kChunks;
}

template <KvFormat kFormat>
void attend(const Stream& stream, const Attention& op, int spans) {
    const Attend<kFormat> kernel{op, spans};
    const int64_t groups = static_cast<int64_t>(op.places.rows) * kernel.num_head_groups();
    for_each_block(stream, groups * std::max(spans, 1), Scratch::bytes(op.cache.head_dim), kernel);
}

}  // namespace

void attention(const Stream& stream, const Attention& op) {
    const int all = spans_of(op.places.max_blocks);
    const int spans = all > 1 && op.places.rows * int64_t{all} <= kMostPartials ? all : 0;
    switch (op.cache.format) {
        case KvFormat::f32:
            attend<KvFormat::f32>(stream, op, spans);
            break;
        case KvFormat::bf16:
            attend<KvFormat::bf16>(stream, op, spans);
            break;
        case KvFormat::int8:
            attend<KvFormat::int8>(stream, op, spans);
            break;
        case KvFormat::fp8:
            attend<KvFormat::fp8>(stream, op, spans);
            break;
    }
    if (spans > 0) {
        for_each(stream, static_cast<int64_t>(op.places.rows) * op.num_heads * op.cache.head_dim,
                 MergeSpans{op, spans});
    }
}

size_t attention_scratch(int rows, int max_blocks, int num_heads, int head_dim) {
    const int64_t partials = std::min(rows * int64_t{spans_of(max_blocks)}, kMostPartials);
    return partials * num_heads * (head_dim + 2);
}

}  // namespace outrider::cuda
