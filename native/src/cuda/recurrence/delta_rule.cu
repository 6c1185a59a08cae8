#include "cuda/recurrence/advance_states.cuh"
#include "cuda/recurrence/delta_rule.h"
#include "cuda/recurrence/prepare_tokens.cuh"

namespace outrider::cuda {
namespace {

template <int kRows>
void advance(const Stream& stream, const DeltaRule& op) {
    using Kernel = AdvanceStates<kRows>;
    const Kernel kernel{op};
    for_each_block(stream, kernel.blocks(), sizeof(typename Kernel::Shared), kernel);
}

}  // namespace

size_t delta_scratch(const DeltaShape& shape, int rows, int sequences, int ring_rows) {
    return (rows + int64_t{sequences} * ring_rows) * prepared_width(shape);
}

/// Chooses the number of registers by the heads' size only.
void delta_rule(const Stream& stream, const DeltaRule& op) {
    const PrepareTokens prepare{op};
    for_each_block(stream, prepare.blocks(), 0, prepare);
    const int rows = op.shape.key_dim / kQuarters;
    if (rows <= 16) {
        advance<16>(stream, op);
    } else if (rows <= 32) {
        advance<32>(stream, op);
    } else {
        advance<64>(stream, op);
    }
}

}  // namespace outrider::cuda
