// TileCopies: a warp's asynchronous copies of keys and values into shared memory, some stages ahead of their
// use.
#pragma once

#include <cstddef>

#include "cuda/attention/attention_group.cuh"
#include "cuda/attention/kv_block.cuh"
#include "cuda/attention/tile_attention_scratch.cuh"
#include "cuda/primitives/copies.cuh"
#include "cuda/primitives/warp.cuh"

namespace outrider::cuda {

constexpr int kFewestStages = 2;

/// A ring of stages; each holds four fragments of every lane: one unit of dimensions of the warp's own block
/// of a span. The stages of its keys come first, then those of its values, which are keys once more if the
/// cache has latent vectors. No warp reads the copies of another, so none waits for another.
template <KvFormat kFormat, bool kIsLatent>
class TileCopies {
  public:
    using Fragment = KvFragment<kFormat>;
    static constexpr int kFragments = 4;  // per lane and stage

    static size_t bytes(int stages) { return size_t{kChunks} * bytes_of_warp(stages); }

    /// Starts to copy the spans `begin` ... `end` - 1, as far as their keys and values were stored before the
    /// pass.
    __device__ TileCopies(const Block& place, const Attention& operation, const Group& queries, char* shared,
                          int num_stages, int begin, int end)
        : block(place),
          group(queries),
          head_dim(operation.cache.head_dim),
          heads(find_block(operation.cache, 0, queries.kv_head).bytes),
          block_bytes(static_cast<int>(find_block(operation.cache, 1, 0).bytes -
                                       find_block(operation.cache, 0, 0).bytes)),
          memory(shared + block.warp() * bytes_of_warp(num_stages)),
          stage(memory),
          stages(num_stages),
          units(units_of(head_dim)),
          steps(units + units_of(operation.cache.value_dim())),
          span(begin),
          last(end) {
#pragma unroll 1
        while (begun < stages && is_old()) {
            begin_next();
            ++begun;
        }
    }

    /// Starts the rest of the first stages, after the pass has stored all of its keys and values.
    __device__ void begin_all() {
#pragma unroll 1
        for (; begun < stages; ++begun) {
            begin_next();
        }
    }

    /// Waits for the oldest stage.
    __device__ void wait() const {
        if (stages == 8) {
            wait_for_copies<7>();
        } else if (stages == 4) {
            wait_for_copies<3>();
        } else if (stages == 3) {
            wait_for_copies<2>();
        } else {
            wait_for_copies<1>();
        }
        meet();
    }
    /// Releases the oldest stage, and starts another in its place.
    __device__ void advance() {
        meet();
        begin_next();
    }

    /// Keys of the oldest stage, which must hold this unit.
    __device__ Fragment keys(int, int n_tile) const {
        if constexpr (kIsWide) {
            return fragment_at((n_tile * kWarp + place_of(block.lane())) * kCopyBytes);
        } else {  // a copy holds two neighbouring slots
            const int g = block.lane() / 4;
            const int copy = n_tile * (kWarp / 2) + block.lane() % 4 * 4 + g / 2;
            return fragment_at(copy * kCopyBytes + g % 2 * kCopyBytes / 2);
        }
    }
    __device__ Fragment values(int, int n_tile) const {
        if constexpr (!kIsLatent) {
            return fragment_at((n_tile * kWarp + block.lane()) * int{sizeof(Fragment)});
        } else if constexpr (kIsWide) {
            const int slot = block.lane() % 8;
            const int row = block.lane() / 8 * kWarp + place_of(slot * 4 + n_tile);
            return load_transposed(stage + row * kCopyBytes);
        } else {
            return gathered(n_tile);
        }
    }
    /// The scale of a slot in the warp's own block of a span; valid from the span's first stage until the
    /// next span's.
    __device__ float scale(int of_span, bool of_key, int slot) const {
        if constexpr (has_scales(kFormat)) {
            return reinterpret_cast<const float*>(scales_of(of_span))[(of_key ? 0 : kBlockSize) + slot];
        }
        return 1.0f;
    }

  private:
    static constexpr bool kIsWide = sizeof(Fragment) == kCopyBytes;
    static constexpr int kStageBytes = kFragments * kWarp * int{sizeof(Fragment)};
    static constexpr int kCopies = kStageBytes / kWarp / kCopyBytes;  // per lane and stage
    static constexpr int kScaleBytes = has_scales(kFormat) ? 2 * kBlockSize * int{sizeof(float)} : 0;
    static constexpr int kScaleSets = 8;  // at most five spans are in flight: each has two stages or more

    const Block& block;
    const Group& group;
    int head_dim;
    const char* heads;  // address of the head in the first block of the cache
    int block_bytes;
    char* memory;  // memory of the warp: stages, then scales
    char* stage;   // stage to start next, which is also the oldest
    int stages;
    int units;
    int steps;  // per span
    int span;   // span of the stage to start next
    int last;
    int step = 0;
    int begun = 0;  // number of the first stages that are started

    OUTRIDER_HOST_DEVICE static int bytes_of_warp(int stages) {
        return stages * kStageBytes + kScaleSets * kScaleBytes;
    }

    /// The place that a lane copies to. Of latent vectors, eight slots' fragments of the same dimensions lie in
    /// different banks.
    __device__ static int place_of(int lane) {
        return kIsLatent && kIsWide ? lane / 4 * 4 + (lane % 4 ^ lane / 8 % 4) : lane;
    }

    /// A fragment of values from the bytes of keys: of one dimension, those of eight slots.
    __device__ Fragment gathered(int n_tile) const {
        const int place = n_tile * 4 + block.lane() % 4;
        const int dim = block.lane() / 4;
        Fragment to = {};
#pragma unroll
        for (int pair = 0; pair < kBlockSize / 8; ++pair) {  // a copy holds two neighbouring slots
            const int copy = pair / 2 * kWarp + pair % 2 * (kWarp / 2) + place;
            const char* slots = stage + copy * kCopyBytes + dim / 4 * 4 + ByteTile::swapped(dim % 4);
#pragma unroll
            for (int which = 0; which < 2; ++which) {
                const auto byte = static_cast<uint8_t>(slots[which * kFragmentSize]);
                to.words[pair / 2] |= uint32_t{byte} << 8 * ByteTile::swapped(pair % 2 * 2 + which);
            }
        }
        return to;
    }

    /// Synchronises the lanes, unless each reads only its own copies.
    __device__ void meet() const {
        if constexpr (!kIsWide || kIsLatent) {
            synchronize_warp();
        }
    }

    __device__ Fragment fragment_at(int offset) const {
        return *reinterpret_cast<const Fragment*>(stage + offset);
    }
    __device__ char* scales_of(int of_span) const {
        return memory + stages * kStageBytes + of_span % kScaleSets * kScaleBytes;
    }
    __device__ char* copy_at(int copy) const {
        return stage + (copy * kWarp + place_of(block.lane())) * kCopyBytes;
    }
    __device__ const char* bytes_of(int chunk) const {
        return heads + int64_t{group.table[chunk]} * block_bytes;
    }

    /// Whether the positions of the next stage were certainly stored before this pass.
    __device__ bool is_old() const {
        return (span * kChunks + block.warp() + 1) * kBlockSize <= group.stored;
    }

    /// Stages after the last one are empty.
    __device__ void begin_next() {
        if (span < last) {
            if (const int chunk = span * kChunks + block.warp(); group.reads(chunk)) {
                const char* bytes = bytes_of(chunk);
                if (step < units || kIsLatent) {
                    begin_keys(bytes, step < units ? step : step - units);
                } else {
                    begin_values(bytes, step - units);
                }
            }
            ++step;
            span += step == steps ? 1 : 0;
            step = step == steps ? 0 : step;
        }
        close_copies();
        stage += kStageBytes;
        stage = stage == memory + stages * kStageBytes ? memory : stage;
    }

    /// Fills dimensions beyond head_dim with zeros.
    __device__ void begin_keys(const char* bytes, int unit) const {
        const int lane = block.lane();
        const int c = (kIsWide ? lane : lane / 4) % 4;
        const int slot = kIsWide ? lane / 4 : lane / 16 * 8 + lane % 4 * 2;
        const int fragment = unit * (kUnitDims / kFragmentSize) + c;
        const bool is_there = fragment * kFragmentSize < head_dim;
        constexpr int kCopySlots = kBlockSize / kCopies;
        const char* from = bytes + ((is_there ? fragment * kBlockSize : 0) + slot) * int{sizeof(Fragment)};
#pragma unroll
        for (int copy = 0; copy < kCopies; ++copy) {
            begin_copy<true>(copy_at(copy), from + copy * kCopySlots * int{sizeof(Fragment)}, is_there);
        }
        if constexpr (has_scales(kFormat)) {
            if (const int place = lane * kCopyBytes; step == 0 && place < kScaleBytes) {
                const char* scales = bytes + (kIsLatent ? 1 : 2) * kBlockSize * head_dim;
                begin_copy<true>(scales_of(span) + place, scales + place, true);
            }
        }
    }

    __device__ void begin_values(const char* bytes, int unit) const {
        constexpr int kDimBytes = 4 * int{sizeof(Fragment)};
        const int first_dim = unit * kUnitDims;
        const int lane_dim = first_dim + block.lane() * kCopyBytes / kDimBytes;
        const char* from = bytes + (head_dim + first_dim) * kDimBytes + block.lane() * kCopyBytes;
#pragma unroll
        for (int copy = 0; copy < kCopies; ++copy) {
            const bool is_there = lane_dim + copy * kWarp * kCopyBytes / kDimBytes < head_dim;
            begin_copy<true>(copy_at(copy), from + (is_there ? copy * kWarp * kCopyBytes : 0), is_there);
        }
    }
};

}  // namespace outrider::cuda
