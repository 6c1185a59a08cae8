// run_steps: a row goes through its steps, in the order of its request.
//
// A step is written once, for every device. What it may ask of a row, with the same bits on each:
//   best()                       the greatest value
//   count()                      of its values
//   change(f)                    sets every value to f(id, value)
//   sum(term)                    of term(value - best) in float64; a term is 0 wherever portable_exp is
//   sum_all(term)                the same of a term that is 0 at minus infinity only
//   last_of_count(n)             the n-th best token, or the last one
//   last_of_share(p)             the last of the fewest best with such a share of the mass
//   last_key_of_share(key, p)    the least key(value) up to which tokens have such a share of the mass
//   rank_best(n)                 orders n of the best tokens or more, for the next two
//   ranked_value(place)          of the token at the place, best first
//   num_ranked()                 how many are ordered
//   rank()                       orders the tokens, for these two and the next three
//   mass(place)                  of the token at the place
//   sum_ranked(term)             of the integers term(place)
//   change_ranked(term, f)       sets values to f(place, value, sum before the place, sum through it)
//   chance(stream)               the position's number in (0, 1) of a stream of the noise
//   note_judged(norm)            keeps the values, whose sum has that log, to judge the drawn token by
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

/// Steps until the last, or until a value is no number any more; those that feed back start from the level.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void run_steps(Row& row, const SamplingNumbers& numbers, double level) {
    for (int i = 0; i < numbers.steps.count && row.is_valid(); ++i) {
        run_step(row, numbers, numbers.steps.steps[i], level);
    }
}

}  // namespace outrider
