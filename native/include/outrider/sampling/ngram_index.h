// NgramIndex: the positions in a history at which each n-gram ends.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace outrider {

/// Adding or removing a token takes the same time however long the history is.
class NgramIndex {
  public:
    explicit NgramIndex(int64_t size) : size_(size) {}

    /// The number of tokens of an n-gram.
    int64_t size() const { return size_; }

    /// Adds the n-gram that ends with the history, if the history is long enough.
    void push(const std::vector<int32_t>& history) {
        if (static_cast<int64_t>(history.size()) >= size_) {
            ends_[key_of(history.data() + history.size())].push_back(static_cast<int64_t>(history.size()));
        }
    }
    /// Removes that n-gram again.
    void pop(const std::vector<int32_t>& history) {
        if (static_cast<int64_t>(history.size()) >= size_) {
            ends_.at(key_of(history.data() + history.size())).pop_back();
        }
    }

    /// The ends of the n-grams whose hash equals that of the one before `end`, in ascending order; the caller
    /// compares the tokens.
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
