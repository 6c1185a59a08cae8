// Asynchronous copies, on a GPU or, in tests, on the host.
#pragma once

#if defined(OUTRIDER_CUDA_EMULATION)
#include "emulation/copies.cuh"
#else
#include "cuda/gpu/copies.cuh"
#endif
