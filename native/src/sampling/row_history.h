// RowHistory: the tokens before a row's draw: the state's history followed by the row's predictions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace outrider {

class RowHistory {
  public:
    RowHistory(const std::vector<int32_t>& committed, const int32_t* predictions, int num_predictions)
        : committed_(committed), predictions_(predictions), num_predictions_(num_predictions) {}

    int64_t num_committed() const { return static_cast<int64_t>(committed_.size()); }
    int64_t length() const { return num_committed() + num_predictions_; }
    int32_t operator[](int64_t place) const {
        return place < num_committed() ? committed_[place] : predictions_[place - num_committed()];
    }
    /// The length, at most `most`, of the longest run before `place` that equals the last tokens of the
    /// history.
    int64_t common_length(int64_t place, int64_t most) const {
        int64_t common = 0;
        while (common < std::min(most, place) &&
               (*this)[place - 1 - common] == (*this)[length() - 1 - common]) {
            ++common;
        }
        return common;
    }
    /// The last `count` tokens.
    std::vector<int32_t> last(int64_t count) const {
        std::vector<int32_t> tokens;
        for (int64_t place = length() - count; place < length(); ++place) {
            tokens.push_back((*this)[place]);
        }
        return tokens;
    }

  private:
    const std::vector<int32_t>& committed_;
    const int32_t* predictions_;
    int num_predictions_;
};

}  // namespace outrider
