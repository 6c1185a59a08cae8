#include "cuda/attention/attend.cuh"
#include "cuda/attention/attention.h"

namespace outrider::cuda {

void attend_bf16(const Stream& stream, const Attention& op) {
    attend<KvFormat::bf16>(stream, op);
}

}  // namespace outrider::cuda
