// run_steps: a row goes through its steps, in the order of its request.
//
// A step is written once, for every device. What it may ask of a row, with the same bits on each:
//   best()                       the greatest value
//   change(f)                    sets every value to f(id, value)
//   sum(term)                    of term(value - best) in float64; a term is 0 wherever portable_exp is
//   sum_all(term)                the same of a term that is 0 at minus infinity only
//   last_of_count(n)             the n-th best token, or the last one
//   last_of_share(p)             the last of the fewest best with such a share of the mass
//   last_key_of_share(key, p)    the least key(value) up to which tokens have such a share of the mass
//   rank()                       orders the tokens, for mass(place), num_ranked() and the next two
//   sum_ranked(term)             of the integers term(place)
//   change_ranked(term, f)       sets values to f(place, value, sum before the place, sum through it)
//   chance(stream)               the position's number in (0, 1) of a stream of the noise
#pragma once

#include "outrider/sampling/sampling_params.h"
#include "sampling/steps/cut_offs.h"
#include "sampling/steps/ranked_cuts.h"
#include "sampling/steps/skew.h"
#include "sampling/steps/smoothing.h"
#include "sampling/steps/tail_free.h"
#include "sampling/steps/temperature.h"
#include "sampling/steps/top_n_sigma.h"
#include "sampling/steps/typical.h"

namespace outrider {

template <typename Row>
OUTRIDER_HOST_OR_DEVICE void run_step(Row& row, const SamplingNumbers& numbers, SamplerStep step) {
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
        case SamplerStep::adaptive_p:
            return;  // no functions of the row alone: host/feedback_steps.h has them
    }
}

/// Steps until the last, or until a value is no number any more.
template <typename Row>
OUTRIDER_HOST_OR_DEVICE void run_steps(Row& row, const SamplingNumbers& numbers) {
    for (int i = 0; i < numbers.steps.count && row.is_valid(); ++i) {
        run_step(row, numbers, numbers.steps.steps[i]);
    }
}

}  // namespace outrider
