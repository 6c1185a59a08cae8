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

/// A sequence of work recorded on a stream, which can be enqueued again as a whole.
class Recording {
  public:
    virtual ~Recording() = default;
    virtual void replay() = 0;
};

class Staging;

/// Copies, fills and kernels run in the order in which they are enqueued; only downloads wait for them. The
/// source of an upload may be changed as soon as it returns. Any thread may allocate and copy. Every failure
/// is a DeviceError that names the call and the device; a kernel's failure may be reported by a later call.
class Stream {
  public:
    /// Throws DeviceError if there is no such device, or if this build has no kernels for it.
    explicit Stream(int device);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    /// The kind of device, e.g. "cuda-sm_90".
    std::string device_name() const;
    int multiprocessors() const { return multiprocessors_; }
    /// The most shared memory of one block of threads, in bytes.
    size_t block_memory() const { return block_memory_; }
    /// Whether the device has warpgroup multiplications, as only Hopper does.
    bool multiplies_in_groups() const { return multiplies_in_groups_; }
    /// Whether the next kernel waits for its predecessors by itself, and so may be launched while they run.
    bool launches_early() const { return !std::exchange(is_held_, false) && launches_early_; }
    /// Launches the next kernel, and so every later one, only after all kernels before it are complete.
    void hold_next() const { is_held_ = true; }

    /// Returns zeroed memory. Throws DeviceError, with the requested and the free memory, if there is too
    /// little.
    void* allocate(size_t bytes);
    void release(void* memory) noexcept;
    DeviceMemory memory() const;
    void upload(void* to, const void* from, size_t bytes);
    void download(void* to, const void* from, size_t bytes);
    void copy(void* to, const void* from, size_t bytes);  // both on the device
    void fill(void* to, unsigned char byte, size_t bytes);
    void synchronize();

    /// Records the work that this thread enqueues from now on, instead of running it; the thread must not
    /// allocate, upload or download. Other threads that allocate or copy wait until the recording ends, since
    /// their calls would become part of it. Only one thread at a time may launch kernels.
    void begin_recording();
    /// Throws DeviceError if some of the work cannot be recorded.
    std::unique_ptr<Recording> end_recording();

    /// Lets this device's kernels read and write memory of the other stream's device; returns whether that is another
    /// one. Throws std::invalid_argument if the machine does not allow it.
    bool reach(const Stream& peer) const;

    /// Makes the device current for the calling thread, as every call of the CUDA runtime requires.
    void select() const;
    /// Throws DeviceError if a kernel could not be enqueued.
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

/// The names of the devices that this process can use, in the order of their indices; empty without a driver.
std::vector<std::string> device_names();

/// The reason why there is no device; empty if there is one.
std::string device_problem();

}  // namespace outrider::cuda
