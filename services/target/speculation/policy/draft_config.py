"""DraftConfig: the constants of the policy that are about drafts, as those in `policy_config.py`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftConfig:
    """What a draft service is granted, how long it is waited for, and how its times are estimated."""

    default_length: int = 4
    """Predictions per pass that `ALWAYS` gets by default. Chosen."""

    run_ahead: int = 8
    """Tokens of credit beyond what the next pass can verify, for a draft that is not in the target's way. Chosen."""

    ahead_wait_price: float = 2.0
    """Times its length that a wait for a draft that runs ahead must win. Measured in a simulation of links of up to
    50 ms: from 1.5 to 3 all is within 2 % of the best; at 1 it is up to 9 % less.
    """

    longest_wait: float = 0.25
    """Seconds that a step may wait for predictions under way, but for prefill. Chosen: a few tokens of a large draft on
    a CPU.
    """

    longest_reading: float = 2.0
    """Seconds by which it may be longer while a draft reads and nobody knows how long that takes, where the caller
    bounds the wait too. Derived: a window of the loss budget. A draft whose reading was not waited for seems slower
    than it is, since the target computed meanwhile, and on a slow machine might never be used for that.
    """

    wait_margin: float = 1.5
    """Times as long as predictions usually take that they are waited for; in the wait itself and in what it may cost.
    Chosen: to wait longer costs time where they do not come, to wait less wastes what is nearly there.
    """

    longest_sample: float = 4.0
    """Longest delay that is believed, in longest waits. Chosen: one long silence says little about the next delay."""

    max_misses: int = 3
    """Waits in vain, in a row, until nobody waits any more. Chosen: each makes the next one longer by the margin."""

    retry_after: float = 200.0
    """Waits as long as the last from then to the next try. Derived: which so costs half a percent of the time."""

    latency_memory: float = 0.95
    """What earlier answers keep of their weight at each new one, in a line through them. Chosen: the last 20 count."""

    latency_spread: float = 0.05
    """Variance of the numbers of predictions asked, below which answers say nothing of the slope. Chosen: one in twenty
    that differs from the others by one.
    """

    slowdown: float = 0.1
    """Share by which answers take longer for each further sequence that is predicted for at once, until that was
    measured. Chosen: more than the 0.03 to 0.06 that were, on two cores, since what is paid for the draft to read the
    prompts is lost if it was too little.
    """

    slowdown_weight: float = 0.1
    """Weight of a new measurement of that. Chosen: the last ten or so count."""

    prefill_weight: float = 0.3
    """Weight of a new measurement of how fast the draft prefills. Chosen: the last three or so count."""
