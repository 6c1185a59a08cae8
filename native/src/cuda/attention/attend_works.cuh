// attend_works: the way of every block of an attention, whatever it computes with.
#pragma once

#include <cstdint>

#include "cuda/attention/attention_parts.cuh"
#include "cuda/attention/work_list.cuh"

namespace outrider::cuda {

/// Who shares the work of an attention.
struct Sharing {
    int blocks;      // no more than fit on the device at once
    int most_parts;  // places for the results of parts, counted in rows
};

/// How a multiprocessor's memory is used.
struct Depth {
    int blocks;       // of a multiprocessor
    int stages;       // of copies
    int round_units;  // of dimensions that are merged at once
};

/// Attends to a work's spans one after the other. What a span gives a row depends on that row alone; it is merged
/// with those before it in its stretch, and that with the stretches before it, by one block or by several: so
/// the bits are the same however the work is cut.
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

/// Goes through a block's share of the work; `body` gets a work, memory, and a flag that the block shares. Where the
/// rows are, and what was stored before this pass, is read while the kernels before still run.
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

/// Where all works are for one kernel.
template <typename Kernel>
__device__ void attend_works(const Block& block, const Kernel& kernel) {
    attend_works<Kernel::kThreads>(
        block, kernel.op, kernel.grouping, kernel.sharing,
        [&](const Work& work, char* memory, int& flag) { attend_work(block, kernel, work, memory, flag); });
}

}  // namespace outrider::cuda
