// TokenSet: a sorted set of token ids.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace outrider {

class TokenSet {
  public:
    explicit TokenSet(std::vector<int32_t> ids) : ids_(std::move(ids)) {
        std::sort(ids_.begin(), ids_.end());
    }

    bool contains(int32_t id) const { return std::binary_search(ids_.begin(), ids_.end(), id); }

  private:
    std::vector<int32_t> ids_;
};

}  // namespace outrider
