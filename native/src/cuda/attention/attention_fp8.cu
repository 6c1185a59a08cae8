#include "cuda/attention/attend.cuh"
#include "cuda/attention/attention.h"

namespace outrider::cuda {

void attend_fp8(const Stream& stream, const Attention& op) {
    attend<KvFormat::fp8>(stream, op);
}

}  // namespace outrider::cuda
