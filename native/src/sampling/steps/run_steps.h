// run_steps: applies a row's steps, in the order of its request.
//
// Each step is written once, for every device. It uses these operations of a row, which give the same bits on
// each:
//   best()                       the greatest value
//   count()                      the number of values
//   change(f)                    sets every value to f(id, value)
//   sum(term)                    sum of term(value - best) in float64; a term is 0 wherever portable_exp is
//   sum_all(term)                the same for a term that is 0 at minus infinity only
//   last_of_count(n)             the n-th best token, or the last one
//   last_of_share(p)             the last of the best tokens whose cumulative mass reaches this share
//   last_key_of_share(key, p)    the least key(value) up to which the tokens' mass reaches this share
//   rank_best(n)                 ranks at least n of the best tokens, for the next two
//   ranked_value(place)          value of the token at the place, best first
//   num_ranked()                 number of ranked tokens
//   rank()                       ranks all tokens, for these two and the next three
//   mass(place)                  mass of the token at the place
//   sum_ranked(term)             sum of the integers term(place)
//   change_ranked(term, f)       sets values to f(place, value, sum before the place, sum through it)
//   chance(stream)               a number in (0, 1) from a stream of the noise, at the row's position
//   note_judged(norm)            keeps the values and the log of their sum, to judge the drawn token
#pragma once

#include "outrider/sampling/sampling_params.h"
#include "sampling/steps/cut_offs.h"
#include "sampling/steps/feedback.h"
#include "sampling/steps/ranked_cuts.h"
#include "sampling/steps/skew.h"
#include "sampling/steps/smoothing.h"
#include "sampling/steps/tail_free.h"
#include "sampling/steps/temperature.h"
#include "sampling/steps/top_n_sigma.h"
#include "sampling/steps/typical.h"

namespace outrider {

template <typename Row>
OUTRIDER_HOST_OR_DEVICE void run_step(Row& row, const SamplingNumbers& numbers, SamplerStep step,
                                      double level) {
    switch (step) {
        case SamplerStep::top_n_sigma:
            return keep_top_n_sigma(row, numbers.top_n_sigma);
        case SamplerStep::smoothing:
            return smooth(row, numbers);
        case SamplerStep::temperature:
            return apply_temperature(row, numbers);
        case SamplerStep::top_k:
            return keep_top_k(row, numbers.top_k);
        case SamplerStep::top_p:
            return keep_top_p(row, numbers.top_p);
        case SamplerStep::min_p:
            return keep_at_least(row, numbers.min_p);
        case SamplerStep::top_a:
            return keep_top_a(row, numbers.top_a);
        case SamplerStep::tail_free:
            return keep_tail_free(row, numbers.tfs_z);
        case SamplerStep::typical:
            return keep_typical(row, numbers.typical_p);
        case SamplerStep::epsilon:
            return keep_epsilon(row, numbers.epsilon_cutoff);
        case SamplerStep::eta:
            return keep_eta(row, numbers.eta_cutoff);
        case SamplerStep::xtc:
            return exclude_top_choices(row, numbers);
        case SamplerStep::skew:
            return apply_skew(row, numbers.skew);
        case SamplerStep::mirostat:
            return apply_mirostat(row, numbers.mirostat_mode, level);
        case SamplerStep::adaptive_p:
            return prefer_near_target(row, numbers.adaptive_target, level);
    }
}

/// Runs the steps until the last, or until a value is invalid; steps that feed back start from `level`.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void run_steps(Row& row, const SamplingNumbers& numbers, double level) {
    for (int i = 0; i < numbers.steps.count && row.is_valid(); ++i) {
        run_step(row, numbers, numbers.steps.steps[i], level);
    }
}

}  // namespace outrider
