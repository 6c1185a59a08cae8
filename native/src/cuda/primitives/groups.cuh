// Operations of a warpgroup, four warps, on a GPU or, in tests, on the host.
#pragma once

#if defined(OUTRIDER_CUDA_EMULATION)
#include "emulation/groups.cuh"
#else
#include "cuda/gpu/groups.cuh"
#endif
