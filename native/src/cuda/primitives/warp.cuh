// Operations of a warp, on a GPU or, in tests, on the host.
#pragma once

#if defined(OUTRIDER_CUDA_EMULATION)
#include "emulation/warp.cuh"
#else
#include "cuda/gpu/warp.cuh"
#endif
