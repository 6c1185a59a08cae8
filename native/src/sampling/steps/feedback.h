// Feedback: steps that depend on the tokens drawn before, through a level.
#pragma once

#include <cstdint>
#include <limits>

#include "outrider/sampling/sampling_params.h"
#include "sampling/steps/ranked_cuts.h"
#include "sampling/steps/row_figures.h"

namespace outrider {

/// Records the row's present distribution, in which the drawn token will be judged.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void judge(Row& row) {
    row.note_judged(static_cast<double>(row.best()) + portable_log(sum_of_weights(row)));
}

/// Mirostat 2.0: keeps the tokens with at most `level` bits of surprise, -log2 p. (basusourya/mirostat's
/// mirostat.py; llama.cpp's llama_sampler_mirostat_v2.)
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void keep_surprise(Row& row, double level) {
    const double bound = portable_log(sum_of_weights(row)) - level * kLn2;
    const double least = bound < 0 ? bound : 0;  // the best stays
    const auto best = static_cast<double>(row.best());
    row.change([=](int64_t, float value) {
        return static_cast<double>(value) - best >= least ? value : -std::numeric_limits<float>::infinity();
    });
}

/// The exponent of the Zipf law that the `count` best tokens follow, by least squares over the log-ratios of
/// neighbours. (arXiv 2007.14966, algorithm 1.)
template <typename Row>
OUTRIDER_HOST_OR_DEVICE double zipf_exponent(const Row& row, int64_t count) {
    double products = 0;
    double squares = 0;
    for (int64_t i = 0; i + 1 < count; ++i) {
        const double ranks = portable_log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
        const double fall =
            static_cast<double>(row.ranked_value(i)) - static_cast<double>(row.ranked_value(i + 1));
        products += ranks * fall;
        squares += ranks * ranks;
    }
    return products / squares;
}

/// log(e / (1 - N^-e)), with its limit at e = 0, where the formula is 0 / 0.
/// # e: at least -1; log_size: log N, above 0
OUTRIDER_HOST_DEVICE inline double log_of_ratio(double e, double log_size) {
    const double size = e < 0 ? -e : e;
    const double power = size * log_size;
    if (power < 1e-7) {
        return -portable_log(log_size);
    }
    const double beyond = 1 - portable_exp(-power);  // of N^-|e|
    return portable_log(size / beyond) - (e < 0 ? power : 0);
}

/// Mirostat 1: keeps the k best tokens, where by Zipf's law token k has the wanted surprise. (arXiv
/// 2007.14966, algorithm 1; the exponent is fitted to as many tokens as in llama.cpp.)
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void keep_zipf(Row& row, double level) {
    constexpr int64_t kLookedAt = 100;
    row.rank_best(kLookedAt);
    const int64_t count = row.num_ranked() < kLookedAt ? row.num_ranked() : kLookedAt;
    if (count < 2) {
        return;
    }
    const double exponent = zipf_exponent(row, count);
    const double log_size = portable_log(static_cast<double>(row.count()));
    const double log_k = (log_of_ratio(exponent - 1, log_size) + level * kLn2) / exponent;
    if (log_k < log_size) {
        keep_top_k(row, log_k > 0 ? static_cast<int64_t>(1 / portable_exp(-log_k)) : 1);
    }
}

/// Keeps the tokens of little surprise; the drawn token is judged in the distribution that is left.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void apply_mirostat(Row& row, int32_t mode, double level) {
    if (mode == 1) {
        keep_zipf(row, level);
    } else {
        keep_surprise(row, level);
    }
    judge(row);
}

/// Adaptive-p: raises the tokens whose probability would bring the mean closest to the target, by a curve
/// around that probability: quadratic near it, linear far away. The drawn token is judged in the distribution
/// before that. (llama.cpp's llama_sampler_adaptive_p_apply, with its constants.)
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void prefer_near_target(Row& row, double target, double mean) {
    constexpr double kPeak = 5;
    constexpr double kSharpness = 10;
    constexpr double kWidth = 0.3;
    judge(row);
    const double balance = 2 * target - mean;
    const double wanted = balance < 0 ? 0 : (balance > 1 ? 1 : balance);
    const double sum = sum_of_weights(row);
    const float best = row.best();
    row.change([=](int64_t, float value) {
        const double difference = weight_of(value, best) / sum - wanted;
        const double distance = (difference < 0 ? -difference : difference) / kWidth;
        const double near = kPeak - kSharpness * distance * distance / (1 + distance);
        return value > -std::numeric_limits<float>::infinity() ? static_cast<float>(near) : value;
    });
}

}  // namespace outrider
