// Recordings: work that a stream is given again and again, as one thing for each kind of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <utility>

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
        const auto [entry, is_first] = find(key);
        if (is_first) {
            enqueue();
            return;
        }
        if (!entry->recording) {
            entry->recording = record(enqueue);
        }
        entry->recording->replay();
    }

    /// Records it before it is run for the first time: what is done once must have been done.
    void prepare(const Key& key, const std::function<void()>& enqueue) {
        Entry* entry = find(key).first;
        if (!entry->recording) {
            entry->recording = record(enqueue);
        }
    }

    void forget() { recordings_.clear(); }

  private:
    static constexpr size_t kMost = 256;

    struct Entry {
        std::unique_ptr<Recording> recording{};  // null where it has been run once
        uint64_t last_run = 0;
    };

    /// And whether there was none.
    std::pair<Entry*, bool> find(const Key& key) {
        if (recordings_.size() == kMost && recordings_.count(key) == 0) {
            forget_oldest();
        }
        const auto [place, is_first] = recordings_.try_emplace(key);
        place->second.last_run = ++runs_;
        return {&place->second, is_first};
    }

    /// The one that has not been run for longest goes.
    void forget_oldest() {
        recordings_.erase(std::min_element(
            recordings_.begin(), recordings_.end(),
            [](const auto& a, const auto& b) { return a.second.last_run < b.second.last_run; }));
    }

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
    std::map<Key, Entry> recordings_;
    uint64_t runs_ = 0;
};

}  // namespace outrider::cuda
