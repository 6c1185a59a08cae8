"""PolicyConfig: every constant of the speculation policy, with its unit and its origin.

*Chosen* means that `test_length_controller.py` passes with the value: it simulates measured pairs of models, up to 32
streams, and drafts that are good, useless, slow, silent or deceptive. Times are in seconds; shares and ratios have no
unit. Constants of the hardware or the protocol are no policy, and are where they are used.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConfig:
    """The constants, by what they are about: estimates, choices, regret, drafts, rehearsals, the lookup."""

    prior_rate: float = 0.7
    """Acceptance rate of a predictor's first position before any verdict. Chosen: high enough to try."""
    prior_verdicts: float = 8.0
    """Verdicts that a prior counts as: for a position, the rate of the one before it; for a sequence, all. Chosen."""
    verdict_memory: float = 0.98
    """Factor of the weights of earlier verdicts at each new one. Chosen: about the last 50 count."""
    weight: float = 0.1
    """Least weight of a new measurement of a time. Chosen: about the last ten count."""
    max_error: float = 0.5
    """Largest logarithm of an error to learn from, in measurements of times. Derived: a hiccup counts as 1.65."""
    row_growth: float = 0.02
    """Share by which a pass takes longer for each further row, until it is measured. Measured: 0.01 to 0.02."""
    draft_growth: float = 0.05
    """The same for a draft and each further sequence. Measured: 0.013 on an H200, 0.03 to 0.06 on two cores."""
    slope_spread: float = 0.05
    """Least variance of the numbers of predictions at which answers determine a draft's time for each. Chosen."""

    least_speedup: float = 1.03
    """Least expected ratio of mean tokens per second, with predictions over without. Chosen."""
    horizon: int = 128
    """Most tokens over which the time that a draft needs to read a sequence is spread. Chosen."""
    most_least_chance: float = 0.85
    """Highest probability below which a draft ends a run by itself. Measured: with a higher one, runs end too soon."""
    plain_every: int = 128
    """Steps with predictions before one without, to measure it. Derived: at a speedup of 1.5 it costs 0.3 %."""

    loss_share: float = 0.03
    """Share of its time that a stream may lose to predictions. Promised."""
    loss_seconds: float = 0.3
    """The least of it. Promised."""

    default_length: int = 4
    """Predictions of a draft in each pass for `ALWAYS` without a number. Chosen."""
    run_ahead: int = 8
    """Tokens of credit beyond what the next pass can verify, for a draft on cores of its own. Chosen."""
    wait_margin: float = 1.5
    """How many times the expected time of predictions to wait for them; also the price of a second of reading, and of a
    second's wait for a draft that runs ahead, whose predictions come one pass later by themselves. Measured in a
    simulation of links of up to 50 ms: from 1.5 to 3 all prices are within 2 % of the best.
    """
    longest_wait: float = 0.5
    """Seconds that a step with `ALWAYS` may wait for a draft. Measured: eight tokens of a 0.5B draft take 0.2."""

    rehearsal_tokens: int = 64
    """Tokens to generate in a rehearsal. Measured: they take 2.7 s with a 1.5B target and a 0.5B draft on two cores."""
    rehearsed_lengths: tuple[int, ...] = (4, 1, 8, 2)
    """Predictions in its steps, in turn. Derived: several, to tell a draft's delay from its time per prediction."""
    rehearse_after: tuple[float, ...] = (0.0, 5.0, 20.0, 600.0)
    """Seconds before each rehearsal; the last one repeats. Chosen: one judges too few runs for two streams, and the
    machine's load changes; each takes half a percent of ten minutes.
    """
    draft_wait: float = 0.5
    """Seconds that a target waits for its draft to be linked before it serves without it, and before it tries again to
    rehearse while requests run. Chosen: a running draft is linked within a few round trips.
    """
    first_wait: float = 10.0
    """Seconds that a target waits for its first rehearsal before it serves. Derived: three times its usual time."""

    long_match: int = 8
    """Least tokens of a lookup match that is used before the draft; shorter ones are used after it. Measured on the
    standard library's sources: predictions from a match of eight are right three times in four, as with a good draft.
    """
