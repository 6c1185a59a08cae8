// TokenCounts: the tokens of a history, and how often each was generated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace outrider {

/// Memory grows with the number of different tokens seen, not with the vocabulary.
class TokenCounts {
  public:
    struct Entry {
        int32_t token_id;
        int32_t generated;  // occurrences after the prompt; 0 for a token that only the prompt has
    };

    /// Must be called before any `add_generated`.
    void add_prompt(int32_t token_id) {
        find_or_add(token_id);
        num_prompt_ = entries_.size();
    }
    void add_generated(int32_t token_id) { ++find_or_add(token_id).generated; }
    /// Undoes the latest `add_generated` that has not been undone. A token whose count returns to 0 is
    /// therefore the last entry.
    void remove_generated(int32_t token_id) {
        const size_t place = index_.at(token_id);
        if (--entries_[place].generated == 0 && place >= num_prompt_) {
            entries_.pop_back();
            index_.erase(token_id);
        }
    }

    int32_t generated(int32_t token_id) const {
        const auto found = index_.find(token_id);
        return found == index_.end() ? 0 : entries_[found->second].generated;
    }

    const std::vector<Entry>& entries() const { return entries_; }

  private:
    Entry& find_or_add(int32_t token_id) {
        const auto [place, added] = index_.try_emplace(token_id, entries_.size());
        if (added) {
            entries_.push_back({token_id, 0});
        }
        return entries_[place->second];
    }

    std::vector<Entry> entries_;
    size_t num_prompt_ = 0;  // the first entries, which are those of the prompt
    std::unordered_map<int32_t, size_t> index_;
};

}  // namespace outrider
