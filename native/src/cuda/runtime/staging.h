// Staging: page-locked host memory for copies to and from a device.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <mutex>

namespace outrider::cuda {

/// Uses a few buffers in turn: an upload waits only for the last use of its buffer, a fixed number of copies
/// ago. Only copies of page-locked memory run without the host waiting for them.
class Staging {
  public:
    /// Throws DeviceError on failure.
    explicit Staging(int device);
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    void upload(void* to, const void* from, size_t bytes, cudaStream_t stream);
    /// Waits for all work enqueued on the stream.
    void download(void* to, const void* from, size_t bytes, cudaStream_t stream);

  private:
    static constexpr size_t kBytes = size_t{4} << 20;  // per buffer
    static constexpr size_t kBuffers = 8;              // more than the uploads between two downloads of a run

    struct Buffer {
        void* memory = nullptr;
        cudaEvent_t free = nullptr;  // the buffer may be written after this event
    };

    Buffer& next();
    void release() noexcept;

    int device_;
    std::mutex callers_;
    std::array<Buffer, kBuffers> buffers_;
    size_t last_ = 0;
};

}  // namespace outrider::cuda
