// The stream in host memory, in the place of src/cuda/stream.cu.
#include "cuda/stream.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace outrider::cuda {

/// So many multiprocessors that small matrices meet every shape of a product.
Stream::Stream(int device) : device_(device), multiprocessors_(6) {}
Stream::~Stream() = default;

std::string Stream::device_name() const {
    return "cuda-emulated";
}

void* Stream::allocate(size_t bytes) {
    void* memory = std::calloc(bytes > 0 ? bytes : 1, 1);
    if (!memory) {
        throw std::bad_alloc();
    }
    return memory;
}

void Stream::release(void* memory) noexcept {
    std::free(memory);
}

void Stream::upload(void* to, const void* from, size_t bytes) {
    std::memcpy(to, from, bytes);
}

void Stream::download(void* to, const void* from, size_t bytes) {
    std::memcpy(to, from, bytes);
}

void Stream::copy(void* to, const void* from, size_t bytes) {
    std::memcpy(to, from, bytes);
}

void Stream::fill(void* to, unsigned char byte, size_t bytes) {
    std::memset(to, byte, bytes);
}

std::vector<std::string> device_names() {
    return {"cuda-emulated"};
}

std::string device_problem() {
    return "";
}

}  // namespace outrider::cuda
