#include <cuda_runtime.h>

#include <stdexcept>

#include "cuda/runtime/memory_shortage.h"
#include "cuda/runtime/require.h"
#include "cuda/runtime/staging.h"
#include "cuda/runtime/stream.h"

namespace outrider::cuda {
namespace {

std::string name_of(int device) {
    int major = 0;
    int minor = 0;
    require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
            "cudaDeviceGetAttribute", device);
    require(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
            "cudaDeviceGetAttribute", device);
    return "cuda-sm_" + std::to_string(major) + std::to_string(minor);
}

/// A graph of launches (CUDA C++ Programming Guide, "CUDA Graphs").
class Graph final : public Recording {
  public:
    Graph(cudaGraph_t graph, cudaStream_t stream, int device) : stream_(stream), device_(device) {
        const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
        cudaGraphDestroy(graph);
        require(status, "cudaGraphInstantiate", device);
    }
    ~Graph() override {
        cudaSetDevice(device_);
        cudaGraphExecDestroy(executable_);
    }

    void replay() override {
        require(cudaSetDevice(device_), "cudaSetDevice", device_);
        require(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch", device_);
    }

  private:
    cudaGraphExec_t executable_ = nullptr;
    cudaStream_t stream_;
    int device_;
};

/// Whether a kernel of this architecture waits for its predecessor by itself, and the driver can record that.
bool can_launch_early(const cudaFuncAttributes& attributes) {
    constexpr int kFirstArchitecture = 90;
    constexpr int kFirstVersion = 12030;
    int driver = 0;
    cudaDriverGetVersion(&driver);
    return attributes.ptxVersion >= kFirstArchitecture && driver >= kFirstVersion &&
           CUDART_VERSION >= kFirstVersion;
}

/// A probe for all kernels, which are compiled for the same architectures. It has shared memory only where
/// warpgroup instructions exist, which is on `sm_90a`.
__global__ void nothing() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __shared__ volatile int has_groups;
    has_groups = 1;
#endif
}

bool can_multiply_in_groups(const cudaFuncAttributes& attributes, int device) {
    return attributes.sharedSizeBytes > 0 && name_of(device) == "cuda-sm_90";
}

}  // namespace

Stream::Stream(int device) : device_(device) {
    select();
    cudaFuncAttributes attributes;
    require(cudaFuncGetAttributes(&attributes, nothing), "looking for kernels", device);
    launches_early_ = can_launch_early(attributes);
    multiplies_in_groups_ = can_multiply_in_groups(attributes, device);
    require(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device),
            "cudaDeviceGetAttribute", device);
    int block_memory = 0;
    require(cudaDeviceGetAttribute(&block_memory, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
            "cudaDeviceGetAttribute", device);
    block_memory_ = static_cast<size_t>(block_memory);
    staging_ = std::make_unique<Staging>(device);
    require(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", device);
}

Stream::~Stream() {
    cudaSetDevice(device_);
    cudaStreamSynchronize(handle_);  // enqueued copies still read the staging memory
    cudaStreamDestroy(handle_);
}

std::string Stream::device_name() const {
    return name_of(device_);
}

void* Stream::allocate(size_t bytes) {
    const std::lock_guard lock(calls_);
    select();
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        throw DeviceError(memory_shortage(bytes, device_, this->memory()));
    }
    require(status, "cudaMalloc", device_);
    fill(memory, 0, bytes);
    return memory;
}

void Stream::release(void* memory) noexcept {
    const std::lock_guard lock(calls_);
    cudaSetDevice(device_);
    cudaStreamSynchronize(handle_);  // enqueued work may still use it
    cudaFree(memory);
}

DeviceMemory Stream::memory() const {
    select();
    DeviceMemory found;
    require(cudaMemGetInfo(&found.free, &found.total), "cudaMemGetInfo", device_);
    return found;
}

void Stream::upload(void* to, const void* from, size_t bytes) {
    const std::lock_guard lock(calls_);
    select();
    staging_->upload(to, from, bytes, handle_);
}

void Stream::download(void* to, const void* from, size_t bytes) {
    const std::lock_guard lock(calls_);
    select();
    staging_->download(to, from, bytes, handle_);
}

void Stream::copy(void* to, const void* from, size_t bytes) {
    const std::lock_guard lock(calls_);
    select();
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, handle_), "cudaMemcpyAsync", device_);
}

void Stream::fill(void* to, unsigned char byte, size_t bytes) {
    const std::lock_guard lock(calls_);
    select();
    require(cudaMemsetAsync(to, byte, bytes, handle_), "cudaMemsetAsync", device_);
}

void Stream::synchronize() {
    const std::lock_guard lock(calls_);
    select();
    require(cudaStreamSynchronize(handle_), "cudaStreamSynchronize", device_);
}

/// Other threads may use other streams meanwhile.
void Stream::begin_recording() {
    select();
    std::unique_lock lock(calls_);
    require(cudaStreamBeginCapture(handle_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture",
            device_);
    lock.release();  // end_recording() unlocks it
}

std::unique_ptr<Recording> Stream::end_recording() {
    const std::lock_guard lock(calls_, std::adopt_lock);
    select();
    cudaGraph_t graph = nullptr;
    require(cudaStreamEndCapture(handle_, &graph), "cudaStreamEndCapture", device_);
    return std::make_unique<Graph>(graph, handle_, device_);
}

bool Stream::reach(const Stream& peer) const {
    if (peer.device_ == device_) {
        return false;
    }
    int can = 0;
    require(cudaDeviceCanAccessPeer(&can, device_, peer.device_), "cudaDeviceCanAccessPeer", device_);
    if (can == 0) {
        throw std::invalid_argument("devices: cuda:" + std::to_string(device_) +
                                    " cannot reach the memory of cuda:" + std::to_string(peer.device_));
    }
    select();
    const cudaError_t status = cudaDeviceEnablePeerAccess(peer.device_, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();
        return true;
    }
    require(status, "cudaDeviceEnablePeerAccess", device_);
    return true;
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
