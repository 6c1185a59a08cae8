// WeightView: a matrix as kernels see it.
#pragma once

#include <cstdint>

#include "outrider/format.h"

namespace outrider::cuda {

/// Output features lie side by side, as neighbouring threads of a product read them.
struct WeightView {
    void* data = nullptr;  // [in_features, out_features]
    Format format = Format::f32;
    int64_t out_features = 0;
    int64_t in_features = 0;
};

}  // namespace outrider::cuda
