// Barriers in shared memory, and bulk copies, on a GPU or, in tests, on the host.
#pragma once

#if defined(OUTRIDER_CUDA_EMULATION)
#include "emulation/barriers.cuh"
#else
#include "cuda/gpu/barriers.cuh"
#endif
