#include "outrider/sampling/sampling_params.h"

#include <limits>
#include <set>
#include <sstream>
#include <stdexcept>

namespace outrider {
namespace {

void require(bool holds, const char* message) {
    if (!holds) {
        throw std::invalid_argument(message);
    }
}

void require_in_range(const char* name, double value, const NumberRange& range) {
    const bool is_above = range.excludes_least ? value > range.least : value >= range.least;
    if (!is_above || !(value <= range.most)) {
        std::ostringstream text;
        text << name << ": is " << value << "; it must be " << (range.excludes_least ? "above " : "at least ")
             << range.least << ", at most " << range.most;
        throw std::invalid_argument(text.str());
    }
}

void require_valid_bias(const std::vector<std::pair<int32_t, float>>& logit_bias) {
    std::set<int32_t> seen;
    for (const auto& [token_id, bias] : logit_bias) {
        require(token_id >= 0, "logit_bias: token ids must not be negative");
        require(bias < std::numeric_limits<float>::infinity(), "logit_bias: a bias must be finite or -inf");
        require(seen.insert(token_id).second, "logit_bias: a token id must not occur twice");
    }
}

}  // namespace

void SamplingParams::validate() const {
    for_each_number(*this, [](const char* name, auto number, const NumberRange& range) {
        require_in_range(name, static_cast<double>(number), range);
    });
    require_valid_bias(logit_bias);
    require(min_tokens >= 0, "min_tokens: must be at least 0");
    for (const int32_t token_id : stop_ids) {
        require(token_id >= 0, "stop_ids: token ids must not be negative");
    }
    require(num_candidates >= 0, "num_candidates: must be at least 0");
}

}  // namespace outrider
