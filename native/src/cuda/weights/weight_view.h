// WeightView: a matrix as kernels see it.
#pragma once

#include <cstdint>

#include "outrider/device/format.h"

namespace outrider::cuda {

/// f32: [in_features, out_features], so that neighbouring threads read neighbouring values. Other formats:
/// tiles (see weight_tile.cuh).
struct WeightView {
    char* data = nullptr;
    float* scales = nullptr;  // [out_features], in formats with a scale per feature
    WeightFormat format = WeightFormat::f32;
    int64_t out_features = 0;
    int64_t in_features = 0;
};

}  // namespace outrider::cuda
