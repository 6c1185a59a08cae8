// Recordings: work that a stream is given again and again, as one thing for each kind of it.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>

#include "cuda/runtime/stream.h"

namespace outrider::cuda {

/// Keys must have an order.
template <typename Key>
class Recordings {
  public:
    explicit Recordings(Stream& stream) : stream_(stream) {}

    /// Enqueues what `enqueue` does, which the key decides. The first time it is run as it is enqueued, so
    /// that all that is done once is done; the second time it is recorded.
    void run(const Key& key, const std::function<void()>& enqueue) {
        if (recordings_.size() == kMost && recordings_.count(key) == 0) {
            forget();
        }
        const auto [place, is_first] = recordings_.try_emplace(key);
        if (is_first) {
            enqueue();
            return;
        }
        if (!place->second) {
            place->second = record(enqueue);
        }
        place->second->replay();
    }

    void forget() { recordings_.clear(); }

  private:
    static constexpr size_t kMost = 256;

    std::unique_ptr<Recording> record(const std::function<void()>& enqueue) {
        stream_.begin_recording();
        try {
            enqueue();
        } catch (...) {
            try {
                stream_.end_recording();
            } catch (const std::exception&) {  // follows from what is thrown on
            }
            throw;
        }
        return stream_.end_recording();
    }

    Stream& stream_;
    std::map<Key, std::unique_ptr<Recording>> recordings_;  // null where something has been run once
};

}  // namespace outrider::cuda
