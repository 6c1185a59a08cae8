#include "cuda/attention/attend.cuh"
#include "cuda/attention/attention.h"

namespace outrider::cuda {

void attend_int8(const Stream& stream, const Attention& op) {
    attend<KvFormat::int8>(stream, op);
}

}  // namespace outrider::cuda
