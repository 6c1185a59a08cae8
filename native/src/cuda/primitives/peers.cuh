// Signals between devices, on GPUs or, in tests, on the host.
#pragma once

#if defined(OUTRIDER_CUDA_EMULATION)
#include "emulation/peers.cuh"
#else
#include "cuda/gpu/peers.cuh"
#endif
