// OUTRIDER_HOST_DEVICE: marks what kernels call too.
#pragma once

#if defined(__CUDACC__)
#define OUTRIDER_HOST_DEVICE __host__ __device__
#else
#define OUTRIDER_HOST_DEVICE
#endif
