// attend_works: the way of every block of an attention, whatever it computes with.
#pragma once

#include <cstdint>

#include "cuda/attention/attention_parts.cuh"
#include "cuda/attention/work_list.cuh"

namespace outrider::cuda {

/// Who shares the work of an attention.
struct Sharing {
    int blocks;      // no more than fit on the device at once
    int most_parts;  // that have places, times rows
};

/// How a multiprocessor's memory is used.
struct Depth {
    int blocks;       // of a multiprocessor
    int stages;       // of copies
    int round_units;  // of dimensions that are merged at once
};

/// Goes through a block's share of the work, span by span. What a span gives a row depends on that row alone;
/// it is merged with those before it in its stretch, and that with the stretches before it, by one block or
/// by several: so the bits are the same however the work is cut. Where the rows are, and what was stored
/// before this pass, is read while the kernels before still run.
template <typename Kernel>
__device__ void attend_works(const Block& block, const Kernel& kernel) {
    const Attention& op = kernel.op;
    const Sharing& sharing = kernel.sharing;
    using List = WorkList<Kernel::kThreads>;
    const List list(block, op, kernel.grouping, sharing.blocks, sharing.most_parts);
    char* memory = block.shared + List::bytes();
    const typename Kernel::Scratch scratch(memory, op.cache.head_dim, kernel.depth);
    memory += Kernel::Scratch::bytes(op.cache.head_dim, kernel.depth);
    if (static_cast<int>(block.index) >= list.size()) {
        wait_for_previous();
    }
#pragma unroll 1
    for (int index = static_cast<int>(block.index); index < list.size(); index += sharing.blocks) {
        const Work& work = list.at(block, index);
        const Group group = work.group;
        const int end = work.end();
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
            finish_part<Kernel::kThreads>(block, op, work, list.flag());
        }
        block.synchronize();  // the next work has the same memory
    }
}

}  // namespace outrider::cuda
