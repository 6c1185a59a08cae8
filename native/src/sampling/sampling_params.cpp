#include "outrider/sampling/sampling_params.h"

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

namespace outrider {
namespace {

void require(bool holds, const char* message) {
    if (!holds) {
        throw std::invalid_argument(message);
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
    require(std::isfinite(temperature) && temperature >= 0, "temperature: must be finite and at least 0");
    require(top_k >= 0, "top_k: must be at least 0 (0: off)");
    require(top_p > 0 && top_p <= 1, "top_p: must be in (0, 1]");
    require(min_p >= 0 && min_p <= 1, "min_p: must be in [0, 1]");
    require(std::isfinite(repetition_penalty) && repetition_penalty > 0,
            "repetition_penalty: must be finite and above 0");
    require(std::isfinite(frequency_penalty), "frequency_penalty: must be finite");
    require(std::isfinite(presence_penalty), "presence_penalty: must be finite");
    require_valid_bias(logit_bias);
    require(min_tokens >= 0, "min_tokens: must be at least 0");
    for (const int32_t token_id : stop_ids) {
        require(token_id >= 0, "stop_ids: token ids must not be negative");
    }
    require(num_candidates >= 0, "num_candidates: must be at least 0");
}

}  // namespace outrider
