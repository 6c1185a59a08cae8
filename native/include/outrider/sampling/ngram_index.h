// NgramIndex: where in a history each run of so many tokens ends.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace outrider {

/// A token more, or one less, takes the same time however long the history is.
class NgramIndex {
  public:
    explicit NgramIndex(int64_t size) : size_(size) {}

    /// Tokens of a run.
    int64_t size() const { return size_; }

    /// Notes the run that ends with the history, if it has as many tokens.
    void push(const std::vector<int32_t>& history) {
        if (static_cast<int64_t>(history.size()) >= size_) {
            ends_[key_of(history.data() + history.size())].push_back(static_cast<int64_t>(history.size()));
        }
    }
    /// Forgets it again.
    void pop(const std::vector<int32_t>& history) {
        if (static_cast<int64_t>(history.size()) >= size_) {
            ends_.at(key_of(history.data() + history.size())).pop_back();
        }
    }

    /// The ends of the runs that may be the one before `end`, in their order: the caller compares them.
    std::span<const int64_t> ends_like(const int32_t* end) const {
        const auto found = ends_.find(key_of(end));
        return found == ends_.end() ? std::span<const int64_t>() : found->second;
    }

  private:
    uint64_t key_of(const int32_t* end) const {
        uint64_t key = 0;
        for (const int32_t* token = end - size_; token != end; ++token) {
            key = (key ^ static_cast<uint32_t>(*token)) * 0x9E3779B97F4A7C15;
            key ^= key >> 32;
        }
        return key;
    }

    int64_t size_;
    std::unordered_map<uint64_t, std::vector<int64_t>> ends_;
};

}  // namespace outrider
