// attend_works: the loop of a block over its works, which all attention kernels share.
#pragma once

#include <cstdint>

#include "cuda/attention/attention_parts.cuh"
#include "cuda/attention/work_list.cuh"

namespace outrider::cuda {

/// How the work of an attention is distributed.
struct Sharing {
    int blocks;      // at most as many as fit on the device at once
    int most_parts;  // places for the results of parts, counted in rows
};

/// How a multiprocessor's shared memory is used.
struct Depth {
    int blocks;       // per multiprocessor
    int stages;       // of copies
    int round_units;  // units of dimensions that are merged at once
};

/// Attends to a work's spans in order. A span's result for a row depends on that row alone; it is merged with
/// the spans before it in its stretch, and the stretch with the stretches before it, by one block or by
/// several, so the bits are the same however the work is split.
template <typename Kernel>
__device__ void attend_work(const Block& block, const Kernel& kernel, const Work& work, char* memory,
                            int& flag) {
    const Attention& op = kernel.op;
    const Group group = work.group;
    const int end = work.end();
    const typename Kernel::Scratch scratch(memory, op.cache.head_dim, kernel.depth);
    memory += Kernel::Scratch::bytes(op.cache.head_dim, kernel.depth);
    auto copies = kernel.begin_copies(block, group, memory, work.begin(), end);
    wait_for_previous();
    copies.begin_all();
    kernel.begin(block, group, scratch);
#pragma unroll 1
    for (int span = work.begin(); span < end; ++span) {
        kernel.attend(block, group, scratch, copies, span);
        if (work.parts == 1 && ((span + 1) % kStretch == 0 || span + 1 == end)) {
            kernel.end_stretch(block, group, scratch);
        }
    }
    if (work.parts == 1) {
        kernel.write(block, group, scratch);
    } else {
        kernel.write_part(block, work, scratch);
        finish_part<Kernel::kThreads>(block, op, work, flag);
    }
}

/// Processes a block's share of the works; `body` gets a work, shared memory, and a flag that the block's
/// threads share. The rows' places, and keys and values stored before this pass, are read while the previous
/// kernels still run.
template <int kThreads, typename Body>
__device__ void attend_works(const Block& block, const Attention& op, const Grouping& grouping,
                             const Sharing& sharing, const Body& body) {
    using List = WorkList<kThreads>;
    const List list(block, op, grouping, sharing.blocks, sharing.most_parts);
    if (static_cast<int>(block.index) >= list.size()) {
        wait_for_previous();
    }
#pragma unroll 1
    for (int index = static_cast<int>(block.index); index < list.size(); index += sharing.blocks) {
        body(list.at(block, index), block.shared + List::bytes(), list.flag());
        block.synchronize();  // the next work has the same memory
    }
}

/// For an attention whose works all use one kernel.
template <typename Kernel>
__device__ void attend_works(const Block& block, const Kernel& kernel) {
    attend_works<Kernel::kThreads>(
        block, kernel.op, kernel.grouping, kernel.sharing,
        [&](const Work& work, char* memory, int& flag) { attend_work(block, kernel, work, memory, flag); });
}

}  // namespace outrider::cuda
