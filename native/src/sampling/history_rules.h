// History rules: n-gram and sequence rules on the next token, given the tokens so far.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "outrider/sampling/ngram_index.h"
#include "sampling/row_history.h"

namespace outrider {

/// Calls `visit` with the place after each earlier occurrence of the history's last n-gram (index.size()
/// tokens), the latest first, and at most `most` of them. The index finds committed occurrences; the few
/// predictions are searched one by one.
template <typename Visit>
void for_each_repeat(const RowHistory& history, const NgramIndex& index, size_t most, Visit visit) {
    if (history.length() < index.size()) {
        return;
    }
    const auto visit_if_equal = [&](int64_t place) {
        if (most > 0 && place < history.length() &&
            history.common_length(place, index.size()) == index.size()) {
            visit(place);
            --most;
        }
    };
    for (int64_t place = history.length() - 1; place > history.num_committed(); --place) {
        visit_if_equal(place);
    }
    const std::vector<int32_t> last = history.last(index.size());
    const std::span<const int64_t> ends = index.ends_like(last.data() + last.size());
    for (auto end = ends.rbegin(); end != ends.rend() && most > 0; ++end) {
        visit_if_equal(*end);
    }
}

/// Calls `mask` with the last token of each sequence whose other tokens are the last tokens of the history.
template <typename Mask>
void for_each_end_of(const std::vector<std::vector<int32_t>>& sequences, const RowHistory& history,
                     Mask mask) {
    for (const std::vector<int32_t>& sequence : sequences) {
        const auto size = static_cast<int64_t>(sequence.size()) - 1;
        const int64_t first = history.length() - size;
        bool begins = first >= 0;
        for (int64_t i = 0; begins && i < size; ++i) {
            begins = history[first + i] == sequence[i];
        }
        if (begins) {
            mask(sequence.back());
        }
    }
}

}  // namespace outrider
