// The stream in host memory; replaces cuda/runtime/stream.cu and staging.cu.
#include "cuda/runtime/stream.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "cuda/runtime/memory_shortage.h"
#include "emulation/emulated_gpu.h"
#include "emulation/emulated_queue.h"
#include "outrider/device/device_error.h"

namespace outrider::cuda {
namespace {

std::atomic<int> num_replays{0};
std::atomic<int> num_uploads{0};
std::atomic<int> num_waits{0};

constexpr size_t kHeader = 64;  // before each allocation: its size

size_t total_memory(int device) {
    constexpr int kPlenty = 1 << 16;
    const int memory = emulated_gpu(device).memory;
    return static_cast<size_t>(memory > 0 ? memory : kPlenty) << 20;
}

class Works final : public Recording {
  public:
    Works(std::vector<CUstream_st::Work> works, size_t& used, int device)
        : works_(std::move(works)), bytes_(kBytesOfWork * works_.size()), used_(used) {
        const DeviceMemory memory{total_memory(device) - used_, total_memory(device)};
        if (bytes_ > memory.free) {
            throw DeviceError(memory_shortage(bytes_, device, memory));
        }
        used_ += bytes_;
    }
    ~Works() override { used_ -= bytes_; }

    void replay() override {
        ++num_replays;
        for (const CUstream_st::Work& work : works_) {
            work();
        }
    }

  private:
    static constexpr size_t kBytesOfWork = 64;

    std::vector<CUstream_st::Work> works_;
    size_t bytes_;
    size_t& used_;  // of the device
};

/// Throws for calls that are errors on a GPU while a stream is recording.
void require_running(const CUstream_st& queue, const char* call) {
    if (queue.is_recording) {
        throw DeviceError(std::string(call) + " failed on CUDA device: the stream is recording");
    }
}

}  // namespace

class Staging {};

Stream::Stream(int device)
    : device_(device),
      multiprocessors_(emulated_gpu(device).multiprocessors),
      block_memory_(static_cast<size_t>(emulated_gpu(device).block_memory) << 10),
      multiplies_in_groups_(emulated_gpu(device).multiplies_in_groups),
      handle_(new CUstream_st{emulated_gpu(device).tensor_core}) {}

Stream::~Stream() {
    delete handle_;
}

std::string Stream::device_name() const {
    return "cuda-emulated";
}

void* Stream::allocate(size_t bytes) {
    const std::lock_guard lock(calls_);
    require_running(*handle_, "cudaMalloc");
    if (bytes > memory().free) {
        throw DeviceError(memory_shortage(bytes, device_, memory()));
    }
    char* header = static_cast<char*>(std::calloc(bytes + kHeader, 1));
    if (!header) {
        throw std::bad_alloc();
    }
    std::memcpy(header, &bytes, sizeof(bytes));
    handle_->used += bytes;
    return header + kHeader;
}

void Stream::release(void* memory) noexcept {
    const std::lock_guard lock(calls_);
    ++num_waits;
    char* header = static_cast<char*>(memory) - kHeader;
    size_t bytes;
    std::memcpy(&bytes, header, sizeof(bytes));
    handle_->used -= bytes;
    std::free(header);
}

DeviceMemory Stream::memory() const {
    return {total_memory(device_) - handle_->used, total_memory(device_)};
}

void Stream::upload(void* to, const void* from, size_t bytes) {
    const std::lock_guard lock(calls_);
    ++num_uploads;
    require_running(*handle_, "cudaMemcpyAsync");
    std::memcpy(to, from, bytes);
}

void Stream::download(void* to, const void* from, size_t bytes) {
    const std::lock_guard lock(calls_);
    ++num_waits;
    require_running(*handle_, "cudaMemcpyAsync");
    std::memcpy(to, from, bytes);
}

void Stream::copy(void* to, const void* from, size_t bytes) {
    const std::lock_guard lock(calls_);
    handle_->enqueue([=] { std::memcpy(to, from, bytes); });
}

void Stream::fill(void* to, unsigned char byte, size_t bytes) {
    const std::lock_guard lock(calls_);
    handle_->enqueue([=] { std::memset(to, byte, bytes); });
}

void Stream::synchronize() {
    const std::lock_guard lock(calls_);
    ++num_waits;
    require_running(*handle_, "cudaStreamSynchronize");
}

bool Stream::reach(const Stream& peer) const {
    return peer.device_ != device_;
}

void Stream::begin_recording() {
    std::unique_lock lock(calls_);
    require_running(*handle_, "cudaStreamBeginCapture");
    handle_->is_recording = true;
    lock.release();  // end_recording() unlocks it
}

std::unique_ptr<Recording> Stream::end_recording() {
    const std::lock_guard lock(calls_, std::adopt_lock);
    handle_->is_recording = false;
    return std::make_unique<Works>(std::exchange(handle_->recorded, {}), handle_->used, device_);
}

int count_replays() {
    return num_replays;
}

int count_uploads() {
    return num_uploads;
}

int count_waits() {
    return num_waits;
}

std::vector<std::string> device_names() {
    return {"cuda-emulated"};
}

std::string device_problem() {
    return "";
}

}  // namespace outrider::cuda
