"""DraftConfig: the constants of the policy for drafts; see `policy_config.py` for the words of the comments."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftConfig:
    """The credit of a draft service, how long to wait for it, and how its times are estimated."""

    default_length: int = 4
    """Predictions per pass for `ALWAYS` by default. Chosen."""

    run_ahead: int = 8
    """Tokens of credit beyond what the next pass can verify, for a draft on cores of its own. Chosen."""

    ahead_wait_price: float = 2.0
    """How many seconds a second of waiting for a draft that runs ahead must save. Measured in a simulation of links of
    up to 50 ms: from 1.5 to 3 all are within 2 % of the best; at 1 it is up to 9 % less.
    """

    longest_wait: float = 0.25
    """Seconds that a step may wait for predictions under way, not counting prefill. Chosen: a few tokens of a large
    draft on a CPU.
    """

    longest_reading: float = 2.0
    """Seconds by which a wait may be longer while a draft reads for an unknown time, if the caller bounds the wait too.
    Derived: a window of the loss budget. A draft that is not waited for while it reads seems slower than it is, since
    the target computes meanwhile, and on a slow machine it might for that reason never be used.
    """

    wait_margin: float = 1.5
    """How many times the usual time of predictions to wait for them, and to count as the cost of a wait. Chosen: longer
    waits cost time if no predictions come, shorter ones waste predictions that are nearly there.
    """

    longest_sample: float = 4.0
    """Longest delay to learn from, in longest waits. Chosen: one long silence says little about the next delay."""

    max_misses: int = 3
    """Waits in vain in a row before waiting stops. Chosen: each makes the next one longer by the margin."""

    retry_after: float = 200.0
    """Time until the next try, in multiples of the last wait. Derived: so a try costs half a percent of the time."""

    latency_memory: float = 0.95
    """Factor of earlier answers' weights at each new one, in the line through them. Chosen: about the last 20 count."""

    latency_spread: float = 0.05
    """Least variance of the numbers of predictions at which answers determine the slope. Chosen: one number in twenty
    differs from the others by one.
    """

    slowdown: float = 0.1
    """Share by which answers take longer for each further sequence at the same time, until it is measured. Chosen: more
    than the 0.03 to 0.06 measured on two cores, since with too low a value the time for prefill may be lost.
    """

    slowdown_weight: float = 0.1
    """Weight of a new measurement of that. Chosen: about the last ten count."""

    prefill_weight: float = 0.3
    """Weight of a new measurement of how fast the draft prefills. Chosen: about the last three count."""
