#include "sampling/host/feedback_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/steps/ranked_cuts.h"
#include "sampling/steps/row_figures.h"

namespace outrider {
namespace {

constexpr double kLn2 = kLn2High + kLn2Low;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// Notes the row as it is.
void judge_by(const HostRow& row, Judged* judged) {
    judged->values.assign(row.values(), row.values() + row.count());
    judged->norm = log_sum_exp(row.values(), row.count(), row.best());
}

/// Mirostat 2.0: keeps what has at most `level` bits of surprise, -log2 p. (basusourya/mirostat's
/// mirostat.py; llama.cpp's llama_sampler_mirostat_v2.)
void keep_surprise(HostRow& row, double level) {
    const double least = std::min(0.0, portable_log(sum_of_weights(row)) - level * kLn2);
    const auto best = static_cast<double>(row.best());
    row.change(
        [=](int64_t, float value) { return static_cast<double>(value) - best >= least ? value : kNothing; });
}

/// The exponent of the Zipf law that the best tokens follow, by least squares of the logarithms of
/// neighbours' ratios. (arXiv 2007.14966, algorithm 1.)
double zipf_exponent(const std::vector<Scored>& best) {
    double products = 0;
    double squares = 0;
    for (size_t i = 0; i + 1 < best.size(); ++i) {
        const double ranks = portable_log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
        products += ranks * (static_cast<double>(best[i].value) - static_cast<double>(best[i + 1].value));
        squares += ranks * ranks;
    }
    return products / squares;
}

/// log(e / (1 - N^-e)); at e = 0, where that is 0 / 0, what it comes to.  # e: at least -1; log_size: log N,
/// above 0
double log_of_ratio(double e, double log_size) {
    const double power = std::abs(e) * log_size;
    if (power < 1e-7) {
        return -portable_log(log_size);
    }
    const double beyond = 1 - portable_exp(-power);  // of N^-|e|
    return portable_log(std::abs(e) / beyond) - (e < 0 ? power : 0);
}

/// Mirostat 1: the k best, where k is what by Zipf's law has the wanted surprise. (arXiv 2007.14966,
/// algorithm 1; of the tokens so many as llama.cpp looks at.)
void keep_zipf(HostRow& row, double level) {
    constexpr int64_t kLookedAt = 100;
    const std::vector<Scored>& best = row.best_of_count(kLookedAt);
    if (best.size() < 2) {
        return;
    }
    const double exponent = zipf_exponent(best);
    const double log_size = portable_log(static_cast<double>(row.count()));
    const double log_k = (log_of_ratio(exponent - 1, log_size) + level * kLn2) / exponent;
    if (log_k < log_size) {
        keep_top_k(row, log_k > 0 ? static_cast<int64_t>(1 / portable_exp(-log_k)) : 1);
    }
}

/// A curve around the probability that would bring the mean to the target: a square near it, a line far away.
/// (llama.cpp's llama_sampler_adaptive_p_apply, with its constants.)
void prefer_near_target(HostRow& row, double target, double mean) {
    constexpr double kPeak = 5;
    constexpr double kSharpness = 10;
    constexpr double kWidth = 0.3;
    const double wanted = std::clamp(2 * target - mean, 0.0, 1.0);
    const double sum = sum_of_weights(row);
    const float best = row.best();
    row.change([=](int64_t, float value) {
        const double distance = std::abs(weight_of(value, best) / sum - wanted) / kWidth;
        const double near = kPeak - kSharpness * distance * distance / (1 + distance);
        return value > kNothing ? static_cast<float>(near) : value;
    });
}

}  // namespace

double next_level(const SamplingNumbers& numbers, double level, double logprob) {
    if (numbers.mirostat_mode != 0) {
        const double surprise = -logprob / kLn2;
        return level - numbers.mirostat_eta * (surprise - numbers.mirostat_tau);
    }
    return numbers.adaptive_decay * level + (1 - numbers.adaptive_decay) * portable_exp(logprob);
}

void run_feedback_step(HostRow& row, const SamplingNumbers& numbers, SamplerStep step, double level,
                       Judged* judged) {
    if (step == SamplerStep::adaptive_p) {
        judge_by(row, judged);
        prefer_near_target(row, numbers.adaptive_target, level);
        return;
    }
    if (numbers.mirostat_mode == 1) {
        keep_zipf(row, level);
    } else {
        keep_surprise(row, level);
    }
    judge_by(row, judged);
}

}  // namespace outrider
