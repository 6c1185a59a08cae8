// TokenCounts: which tokens a history holds, and how often each was generated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace outrider {

/// Its size is the number of different tokens seen, whatever the vocabulary.
class TokenCounts {
  public:
    struct Entry {
        int32_t token_id;
        int32_t generated;  // occurrences after the prompt; 0 for a token of the prompt alone
    };

    /// Before any generated one.
    void add_prompt(int32_t token_id) {
        find_or_add(token_id);
        num_prompt_ = entries_.size();
    }
    void add_generated(int32_t token_id) { ++find_or_add(token_id).generated; }
    /// Undoes the latest `add_generated` that is not undone. A token that leaves the history for good was the
    /// last that came into it.
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
    size_t num_prompt_ = 0;  // of the entries, those of the prompt
    std::unordered_map<int32_t, size_t> index_;
};

}  // namespace outrider
