// Memory: an array on a stream's device, released on destruction.
#pragma once

#include <cstddef>
#include <vector>

#include "cuda/runtime/stream.h"

namespace outrider::cuda {

template <typename T>
class Memory {
  public:
    explicit Memory(Stream& stream) : stream_(stream) {}
    ~Memory() { release(); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    /// Makes room for `size` values; the contents are lost when it grows.
    T* reserve(size_t size) {
        if (size > size_) {
            release();
            data_ = static_cast<T*>(stream_.allocate(size * sizeof(T)));
            size_ = size;
        }
        return data_;
    }

    T* upload(const std::vector<T>& values) {
        if (!values.empty()) {
            stream_.upload(reserve(values.size()), values.data(), values.size() * sizeof(T));
        }
        return data_;
    }

    std::vector<T> download(size_t size) const {
        std::vector<T> values(size);
        if (size > 0) {
            stream_.download(values.data(), data_, size * sizeof(T));
        }
        return values;
    }

  private:
    void release() {
        if (data_) {
            stream_.release(data_);
            data_ = nullptr;
            size_ = 0;
        }
    }

    Stream& stream_;
    T* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace outrider::cuda
