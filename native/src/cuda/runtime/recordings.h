// Recordings: records work that a stream repeats, and replays it as a whole.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "cuda/runtime/stream.h"
#include "outrider/device/device_error.h"

namespace outrider::cuda {

/// One recording per key; keys must be ordered.
template <typename Key>
class Recordings {
  public:
    explicit Recordings(Stream& stream) : stream_(stream) {}

    /// Runs the work of `enqueue`, which must be the same for the same key. The first run enqueues it
    /// directly, so that one-time initialisation is done; the second run records it. Where that fails, as for
    /// want of memory, the work is enqueued each time: a recording only saves time.
    void run(const Key& key, const std::function<void()>& enqueue) {
        const auto [entry, is_first] = find(key);
        if (is_first) {
            enqueue();
            return;
        }
        try_to_record(*entry, enqueue);
        if (entry->recording) {
            entry->recording->replay();
        } else {
            enqueue();
        }
    }

    /// Records the work before its first run; its one-time initialisation must have been done already.
    void prepare(const Key& key, const std::function<void()>& enqueue) {
        try_to_record(*find(key).first, enqueue);
    }

    void forget() { recordings_.clear(); }

  private:
    static constexpr size_t kMost = 256;

    struct Entry {
        std::unique_ptr<Recording> recording{};  // null after only one run
        bool has_failed = false;
        uint64_t last_run = 0;
    };

    /// Returns the key's entry, and whether it is new.
    std::pair<Entry*, bool> find(const Key& key) {
        if (recordings_.size() == kMost && recordings_.count(key) == 0) {
            forget_oldest();
        }
        const auto [place, is_first] = recordings_.try_emplace(key);
        place->second.last_run = ++runs_;
        return {&place->second, is_first};
    }

    /// Evicts the least recently used recording.
    void forget_oldest() {
        recordings_.erase(std::min_element(
            recordings_.begin(), recordings_.end(),
            [](const auto& a, const auto& b) { return a.second.last_run < b.second.last_run; }));
    }

    void try_to_record(Entry& entry, const std::function<void()>& enqueue) {
        if (entry.recording || entry.has_failed) {
            return;
        }
        try {
            entry.recording = record(enqueue);
        } catch (const DeviceError&) {
            entry.has_failed = true;
        }
    }

    std::unique_ptr<Recording> record(const std::function<void()>& enqueue) {
        stream_.begin_recording();
        try {
            enqueue();
        } catch (...) {
            try {
                stream_.end_recording();
            } catch (const std::exception&) {  // a consequence of the exception that is rethrown
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
