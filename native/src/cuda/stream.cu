#include <cuda_runtime.h>

#include <cstdio>

#include "cuda/launch.cuh"
#include "cuda/stream.h"
#include "outrider/device_error.h"

namespace outrider::cuda {
namespace {

void require(cudaError_t status, const char* call, int device) {
    if (status != cudaSuccess) {
        cudaGetLastError();  // or it would be reported once more by the next call that looks
        throw DeviceError(std::string(call) + " failed on CUDA device " + std::to_string(device) + ": " +
                          cudaGetErrorString(status));
    }
}

std::string name_of(int device) {
    int major = 0;
    int minor = 0;
    require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
            "cudaDeviceGetAttribute", device);
    require(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
            "cudaDeviceGetAttribute", device);
    return "cuda-sm_" + std::to_string(major) + std::to_string(minor);
}

std::string gibibytes(size_t bytes) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
    return text;
}

std::string memory_shortage(size_t bytes, int device) {
    size_t free = 0;
    size_t total = 0;
    cudaMemGetInfo(&free, &total);
    return "CUDA device " + std::to_string(device) + " has too little memory: " + gibibytes(bytes) +
           " asked for, " + gibibytes(free) + " of " + gibibytes(total) + " free";
}

/// Stands for all kernels: they are compiled for the same architectures.
struct Nothing {
    __device__ void operator()(int64_t) const {}
};

}  // namespace

Stream::Stream(int device) : device_(device) {
    select();
    cudaFuncAttributes attributes;
    require(cudaFuncGetAttributes(&attributes, run<Nothing>), "looking for kernels", device);
    require(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device),
            "cudaDeviceGetAttribute", device);
    require(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", device);
}

Stream::~Stream() {
    cudaSetDevice(device_);
    cudaStreamDestroy(handle_);
}

std::string Stream::device_name() const {
    return name_of(device_);
}

void* Stream::allocate(size_t bytes) {
    select();
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        throw DeviceError(memory_shortage(bytes, device_));
    }
    require(status, "cudaMalloc", device_);
    fill(memory, 0, bytes);
    return memory;
}

void Stream::release(void* memory) noexcept {
    cudaSetDevice(device_);
    cudaStreamSynchronize(handle_);  // what is enqueued may still use it
    cudaFree(memory);
}

void Stream::upload(void* to, const void* from, size_t bytes) {
    select();
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, handle_), "cudaMemcpyAsync", device_);
    synchronize();
}

void Stream::download(void* to, const void* from, size_t bytes) {
    select();
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, handle_), "cudaMemcpyAsync", device_);
    synchronize();
}

void Stream::copy(void* to, const void* from, size_t bytes) {
    select();
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, handle_), "cudaMemcpyAsync", device_);
}

void Stream::fill(void* to, unsigned char byte, size_t bytes) {
    select();
    require(cudaMemsetAsync(to, byte, bytes, handle_), "cudaMemsetAsync", device_);
}

void Stream::synchronize() {
    require(cudaStreamSynchronize(handle_), "cudaStreamSynchronize", device_);
}

void Stream::select() const {
    require(cudaSetDevice(device_), "cudaSetDevice", device_);
}

void Stream::check_launch() const {
    require(cudaGetLastError(), "a kernel's launch", device_);
}

std::vector<std::string> device_names() {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError();
        return {};
    }
    std::vector<std::string> names;
    for (int device = 0; device < count; ++device) {
        names.push_back(name_of(device));
    }
    return names;
}

std::string device_problem() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) {
        cudaGetLastError();
        return cudaGetErrorString(status);
    }
    return count > 0 ? "" : "there is no CUDA device";
}

}  // namespace outrider::cuda
