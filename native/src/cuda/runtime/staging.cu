#include <algorithm>
#include <cstring>

#include "cuda/runtime/require.h"
#include "cuda/runtime/staging.h"

namespace outrider::cuda {

Staging::Staging(int device) : device_(device) {
    try {
        for (Buffer& buffer : buffers_) {
            require(cudaMallocHost(&buffer.memory, kBytes), "cudaMallocHost", device);
            require(cudaEventCreateWithFlags(&buffer.free, cudaEventDisableTiming),
                    "cudaEventCreateWithFlags", device);
        }
    } catch (...) {
        release();
        throw;
    }
}

Staging::~Staging() {
    release();
}

void Staging::release() noexcept {
    for (Buffer& buffer : buffers_) {
        if (buffer.free != nullptr) {
            cudaEventDestroy(buffer.free);
        }
        cudaFreeHost(buffer.memory);  // accepts null
    }
}

void Staging::upload(void* to, const void* from, size_t bytes, cudaStream_t stream) {
    const std::lock_guard<std::mutex> lock(callers_);
    for (size_t first = 0; first < bytes; first += kBytes) {
        const size_t count = std::min(kBytes, bytes - first);
        Buffer& buffer = next();
        std::memcpy(buffer.memory, static_cast<const char*>(from) + first, count);
        require(cudaMemcpyAsync(static_cast<char*>(to) + first, buffer.memory, count, cudaMemcpyHostToDevice,
                                stream),
                "cudaMemcpyAsync", device_);
        require(cudaEventRecord(buffer.free, stream), "cudaEventRecord", device_);
    }
}

void Staging::download(void* to, const void* from, size_t bytes, cudaStream_t stream) {
    const std::lock_guard<std::mutex> lock(callers_);
    for (size_t first = 0; first < bytes; first += kBytes) {
        const size_t count = std::min(kBytes, bytes - first);
        Buffer& buffer = next();
        require(cudaMemcpyAsync(buffer.memory, static_cast<const char*>(from) + first, count,
                                cudaMemcpyDeviceToHost, stream),
                "cudaMemcpyAsync", device_);
        require(cudaStreamSynchronize(stream), "cudaStreamSynchronize", device_);
        std::memcpy(static_cast<char*>(to) + first, buffer.memory, count);
    }
}

Staging::Buffer& Staging::next() {
    last_ = (last_ + 1) % kBuffers;
    Buffer& buffer = buffers_[last_];
    require(cudaEventSynchronize(buffer.free), "cudaEventSynchronize", device_);
    return buffer;
}

}  // namespace outrider::cuda
