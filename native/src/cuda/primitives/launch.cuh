// for_each and for_each_block: the two ways to run kernels, on a GPU or, in tests, on the host.
#pragma once

#if defined(OUTRIDER_CUDA_EMULATION)
#include "emulation/launch.cuh"
#else
#include "cuda/gpu/launch.cuh"
#endif
