// OUTRIDER_HOST_DEVICE marks functions that both the host and kernels call. OUTRIDER_HOST_OR_DEVICE marks
// templates that kernels instantiate with device types, and the host with host types.
#pragma once

#if defined(__CUDACC__)
#define OUTRIDER_HOST_DEVICE __host__ __device__
#define OUTRIDER_HOST_OR_DEVICE __device__
#else
#define OUTRIDER_HOST_DEVICE
#define OUTRIDER_HOST_OR_DEVICE
#endif
