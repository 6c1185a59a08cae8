// Stream: one CUDA device's memory and the queue of work on it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "outrider/device/device.h"

struct CUstream_st;

namespace outrider::cuda {

/// What was enqueued on a stream from one moment to another, as one thing to be enqueued again.
class Recording {
  public:
    virtual ~Recording() = default;
    virtual void replay() = 0;
};

class Staging;

/// Copies, fills and kernels run in the order in which they are enqueued; only downloads wait for them. What
/// an upload reads may be changed when it returns. Any thread may allocate and copy. Every failure is a DeviceError that
/// names the call and the device; one of a kernel may come with a later call.
class Stream {
  public:
    /// Throws DeviceError where there is no such device, or where this build has no kernels for it.
    explicit Stream(int device);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    /// What kind of device it is, e.g. "cuda-sm_90".
    std::string device_name() const;
    int multiprocessors() const { return multiprocessors_; }
    /// Bytes of shared memory that one block of threads can have.
    size_t block_memory() const { return block_memory_; }
    /// Whether groups of four warps multiply together, as on Hopper alone.
    bool multiplies_in_groups() const { return multiplies_in_groups_; }
    /// Whether the next kernel waits for those before itself, and so may be launched while these run.
    bool launches_early() const { return !std::exchange(is_held_, false) && launches_early_; }
    /// The next kernel is launched when all before it is complete, and so is every kernel after it.
    void hold_next() const { is_held_ = true; }

    /// Returns zeroed memory. Throws DeviceError, with the memory asked for and free, where there is too
    /// little.
    void* allocate(size_t bytes);
    void release(void* memory) noexcept;
    DeviceMemory memory() const;
    void upload(void* to, const void* from, size_t bytes);
    void download(void* to, const void* from, size_t bytes);
    void copy(void* to, const void* from, size_t bytes);  // both on the device
    void fill(void* to, unsigned char byte, size_t bytes);
    void synchronize();

    /// From now on what this thread enqueues is recorded in place of being run; it allocates, uploads and
    /// downloads nothing. Other threads that allocate or copy wait until the recording ends, since that would be
    /// part of it. Only one thread at a time launches kernels.
    void begin_recording();
    /// Throws DeviceError where something of it cannot be recorded.
    std::unique_ptr<Recording> end_recording();

    /// Makes the device the calling thread's own, as every call of the CUDA runtime needs it.
    void select() const;
    /// Throws DeviceError where a kernel could not be enqueued.
    void check_launch() const;
    CUstream_st* handle() const { return handle_; }

  private:
    int device_;
    int multiprocessors_ = 1;
    size_t block_memory_ = 0;
    bool multiplies_in_groups_ = false;
    bool launches_early_ = false;
    mutable bool is_held_ = false;
    CUstream_st* handle_ = nullptr;
    std::unique_ptr<Staging> staging_;
    std::recursive_mutex calls_;  // also held while a thread records
};

/// The names of the devices that this process can use, in the order of their numbers; empty without a driver.
std::vector<std::string> device_names();

/// Why there is no device; empty where there is one.
std::string device_problem();

}  // namespace outrider::cuda
