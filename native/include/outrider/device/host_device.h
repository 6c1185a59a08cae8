// OUTRIDER_HOST_DEVICE: marks what kernels call too. OUTRIDER_HOST_OR_DEVICE: marks templates that kernels
// call with what is theirs, and the host with what is its own.
#pragma once

#if defined(__CUDACC__)
#define OUTRIDER_HOST_DEVICE __host__ __device__
#define OUTRIDER_HOST_OR_DEVICE __device__
#else
#define OUTRIDER_HOST_DEVICE
#define OUTRIDER_HOST_OR_DEVICE
#endif
