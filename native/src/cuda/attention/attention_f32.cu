#include "cuda/attention/attend.cuh"
#include "cuda/attention/attention.h"

namespace outrider::cuda {

void attend_f32(const Stream& stream, const Attention& op) {
    attend<KvFormat::f32>(stream, op);
}

}  // namespace outrider::cuda
