// PendingCopies: the copies that a thread of an emulated block has started.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

namespace outrider::cuda {

struct PendingCopy {
    char* to;
    const void* from;  // null: zeros
    size_t bytes;

    void make() const {
        if (from == nullptr) {
            std::memset(to, 0, bytes);
        } else {
            std::memcpy(to, from, bytes);
        }
    }
};

/// Groups of copies, the oldest first.
class PendingCopies {
  public:
    void begin(const PendingCopy& copy) { open_.push_back(copy); }

    void close() {
        groups_.push_back(std::move(open_));
        open_.clear();
    }

    /// Makes all copies except those of the last `kept` groups.
    void wait(size_t kept) {
        while (groups_.size() > kept) {
            for (const PendingCopy& copy : groups_.front()) {
                copy.make();
            }
            groups_.pop_front();
        }
    }

    void forget() {
        open_.clear();
        groups_.clear();
    }

  private:
    std::vector<PendingCopy> open_{};
    std::deque<std::vector<PendingCopy>> groups_{};
};

}  // namespace outrider::cuda
