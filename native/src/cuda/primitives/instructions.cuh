// Instructions of one lane, on a GPU or, in tests, on the host.
#pragma once

#if defined(OUTRIDER_CUDA_EMULATION)
#include "emulation/instructions.cuh"
#else
#include "cuda/gpu/instructions.cuh"
#endif
