// PromptCopies: asynchronous copies of keys and values into shared memory, for all warps of a block.
#pragma once

#include <cstddef>

#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/kv_block.cuh"
#include "cuda/attention/tile_queries.cuh"
#include "cuda/primitives/copies.cuh"

namespace outrider::cuda {

/// A ring of stages; each holds a block of the cache: keys as [units, slots, 4 fragments], so that the lanes
/// of a warp find an operand side by side, then values in the cache's layout, then scales.
template <KvFormat kFormat>
class PromptCopies {
  public:
    using Fragment = KvFragment<kFormat>;
    static constexpr int kStages = 4;

    OUTRIDER_HOST_DEVICE static size_t bytes(int head_dim) { return kStages * stage_bytes(head_dim); }

    /// For the cache blocks of the spans `begin` ... `end` - 1 that some row reads.
    __device__ PromptCopies(const Block& place, const Attention& operation, const Group& queries,
                            char* shared, int begin, int end)
        : block(place),
          op(operation),
          group(queries),
          memory(shared),
          next(larger_of(begin * kChunks, queries.some.first / kBlockSize)),
          last(smaller_of(end * kChunks - 1, queries.some.last / kBlockSize)) {}

    /// Starts the first copies, after the pass has stored all of its keys and values.
    __device__ void begin_all() {
#pragma unroll 1
        for (int stage = 1; stage < kStages; ++stage) {
            begin_next();
        }
    }

    /// Waits for the next block. All threads must call, after they have read the block before, whose stage is
    /// reused.
    __device__ void wait() {
        wait_for_copies<kStages - 2>();
        block.synchronize();
        begin_next();
        read = following(read);
    }

    __device__ Fragment keys(int unit, int n_tile) const {
        constexpr int kNTiles = kBlockSize / kFragmentSize;
        const int g = block.lane() / 4;
        const int copy = g / kSlotsOfCopy * 4 + block.lane() % 4;
        return fragment_at((unit * kNTiles + n_tile) * kWarp + copy * kSlotsOfCopy + g % kSlotsOfCopy);
    }
    __device__ Fragment values(int unit, int n_tile) const {
        constexpr int kNTiles = kUnitDims / 8;
        return fragment_at((units_of(op.cache.head_dim) * kBlockSize / 8 + unit * kNTiles + n_tile) * kWarp +
                           block.lane());
    }
    __device__ float scale(int, bool of_key, int slot) const {
        if constexpr (has_scales(kFormat)) {
            const int place = 2 * units_of(op.cache.head_dim) * kUnitBytes;
            return reinterpret_cast<const float*>(stage_at(read) + place)[(of_key ? 0 : kBlockSize) + slot];
        }
        return 1.0f;
    }

  private:
    static constexpr int kUnitBytes = kUnitDims * kBlockSize / kFragmentSize * int{sizeof(Fragment)};
    static constexpr int kScaleBytes = has_scales(kFormat) ? 2 * kBlockSize * int{sizeof(float)} : 0;
    static constexpr int kSlotsOfCopy = kCopyBytes / int{sizeof(Fragment)};
    static constexpr int kThreads = kChunks * kWarp;

    const Block& block;
    const Attention& op;
    const Group& group;
    char* memory;
    int next;                // chunk to copy next
    int last;                // last chunk
    int begun = 0;           // stage for `next`
    int read = kStages - 1;  // stage that was last waited for

    OUTRIDER_HOST_DEVICE static int stage_bytes(int head_dim) {
        return 2 * units_of(head_dim) * kUnitBytes + kScaleBytes;
    }
    __device__ static int following(int stage) { return stage + 1 < kStages ? stage + 1 : 0; }
    __device__ char* stage_at(int stage) const { return memory + stage * stage_bytes(op.cache.head_dim); }

    __device__ Fragment fragment_at(int index) const {
        return reinterpret_cast<const Fragment*>(stage_at(read))[index];
    }

    __device__ void begin_next() {
        if (next <= last) {
            const char* from = block_of(op, group, next).bytes;
            char* const to = stage_at(begun);
            begin_keys(to, from);
            begin_values(to + units_of(op.cache.head_dim) * kUnitBytes, from + key_bytes());
            ++next;
        }
        close_copies();
        begun = following(begun);
    }

    __device__ int key_bytes() const {
        return op.cache.head_dim * kBlockSize / kFragmentSize * int{sizeof(Fragment)};
    }

    /// Fills dimensions beyond head_dim with zeros.
    __device__ void begin_keys(char* to, const char* from) const {
        constexpr int kCopies = kBlockSize / kSlotsOfCopy;  // for a fragment's dimensions
        const int copies = units_of(op.cache.head_dim) * kUnitBytes / kCopyBytes;
#pragma unroll 1
        for (int copy = block.thread; copy < copies; copy += kThreads) {
            const int fragment = copy / kCopies;
            const int place = (fragment / 4 * kCopies + copy % kCopies) * 4 + fragment % 4;
            const bool is_there = fragment * kFragmentSize < op.cache.head_dim;
            begin_copy<true>(to + place * kCopyBytes, from + (is_there ? copy * kCopyBytes : 0), is_there);
        }
    }

    __device__ void begin_values(char* to, const char* from) const {
        const int copies = units_of(op.cache.head_dim) * kUnitBytes / kCopyBytes;
#pragma unroll 1
        for (int copy = block.thread; copy < copies; copy += kThreads) {
            const bool is_there = copy * kCopyBytes < key_bytes();
            begin_copy<true>(to + copy * kCopyBytes, from + (is_there ? copy * kCopyBytes : 0), is_there);
        }
        if (const int place = block.thread * kCopyBytes; place < kScaleBytes) {
            begin_copy<true>(to + copies * kCopyBytes + place, from + key_bytes() + place);
        }
    }
};

}  // namespace outrider::cuda
