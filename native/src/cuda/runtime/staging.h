// Staging: page-locked memory of the host that copies to and from a device go through.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <mutex>

namespace outrider::cuda {

/// A few buffers in turn: an upload waits only for the one that had its buffer before, a bounded number of
/// uploads ago. Only page-locked memory is copied without the host's waiting.
class Staging {
  public:
    /// Throws DeviceError.
    explicit Staging(int device);
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    void upload(void* to, const void* from, size_t bytes, cudaStream_t stream);
    /// Waits for what is enqueued on the stream.
    void download(void* to, const void* from, size_t bytes, cudaStream_t stream);

  private:
    static constexpr size_t kBytes = size_t{4} << 20;  // of a buffer
    static constexpr size_t kBuffers = 8;              // more than the uploads between two downloads of a run

    struct Buffer {
        void* memory = nullptr;
        cudaEvent_t free = nullptr;  // since when it may be written
    };

    Buffer& next();
    void release() noexcept;

    int device_;
    std::mutex callers_;
    std::array<Buffer, kBuffers> buffers_;
    size_t last_ = 0;
};

}  // namespace outrider::cuda
