"""PolicyConfig: every constant of the speculation policy, with its unit and origin; those for drafts are in
`draft_config.py`.

*Chosen* means that `test_length_controller.py` passes with the value: it simulates two measured pairs of models, up to
32 streams, and drafts that are good, useless, slow, silent or deceptive. *Measured* and *derived* are followed by the
source. Times are in seconds; shares and ratios have no unit. Constants of the hardware or the protocol are no policy,
and are where they are used: `MOST_PREDICTIONS` beside `Predictor`, the limits of messages in `services/draft_protocol`.
"""

from dataclasses import dataclass, field

from services.target.speculation.policy.draft_config import DraftConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceConfig:
    """How acceptance rates are estimated from the verdicts on predictions."""

    prior_rate: float = 0.7
    """Acceptance rate before any verdict. Chosen."""

    prior_verdicts: int = 3
    """Verdicts that the prior counts as. Chosen."""

    confident_after: int = 24
    """Verdicts until an estimate is fully trusted. Chosen: the standard deviation of a rate of 0.7 is then 0.09."""

    min_weight: float = 0.02
    """Least weight of a new verdict in a position's rate. Chosen: the rate is that of about the last 50 verdicts."""

    sequence_memory: float = 0.95
    """Factor of a sequence's own verdicts' weights at each new one. Chosen: about the last 20 count."""

    sequence_trust: float = 4.0
    """Weight of all sequences' rate against a sequence's own, in verdicts. Chosen."""

    caution: float = 6.0
    """Factor of that weight in estimates for the slowest stream. Chosen: with many streams some are unlucky at any
    time, and the slowest one decides whether speculation pays.
    """

    max_rate: float = 0.99
    """Highest possible estimate. Derived: at 1 no number of predictions would ever seem too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCostConfig:
    """How the time of a pass is learned."""

    weight: float = 0.1
    """Weight of a new measurement for its own number of rows. Chosen: about the last ten count."""

    drift: float = 0.08
    """The same for all other numbers of rows. Chosen: growing contexts and the machine's other load change passes of
    every size nearly equally.
    """

    min_passes: int = 3
    """Passes of one size until it counts as known. Chosen."""

    reach: float = 0.25
    """Share of the largest measured pass by which a pass may be larger, in addition to the predictions of one sequence.
    Chosen: larger passes are too far from any measurement.
    """

    max_error: float = 0.5
    """Largest logarithm of an error to learn from. Derived: a hiccup counts as 1.65 at most, and weighs 5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossBudgetConfig:
    """How much of the time of decoding without it speculation may lose."""

    window: float = 2.0
    """Length of the windows of a stream's life for which the loss is bounded. Promised."""

    window_loss: float = 0.02
    """Share of any window that may be lost. Derived: 0.03 is promised, and a step's cost is known only after it."""

    trial_loss: float = 0.05
    """The same during the trial of a new draft. Chosen: it pays for the prefill of a short prompt."""

    income: float = 0.005
    """Share of all time that may be lost in total. Derived: half of the promised 0.01."""

    reopen_at: float = 0.5
    """Share of a window's loss that must be available before more may be lost, after an overdraft. Chosen."""

    unknown_wait: float = 0.5
    """Share of a step's allowed loss to wait for an unmeasured draft. Derived: a draft that answers late also slows the
    next pass.
    """

    trust: float = 0.75
    """Share of the gain expected in a stream's first window that may be spent on prefill in advance. Chosen."""

    luck: float = 0.6
    """Standard deviations of bad luck that a window with prefill must survive; in each step a stream's tokens differ
    from their expectation by about one. Chosen.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupThreshold:
    """How much faster speculation must be estimated to be, as ratios to decoding without it."""

    mean: float
    """For all streams together."""

    slowest: float
    """For the stream with the worst predictions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """How the lengths with the highest goodput are searched for, and when they are good enough."""

    to_begin: SpeedupThreshold = SpeedupThreshold(mean=1.12, slowest=1.05)
    """If the draft must prefill first. Chosen: a wrong decision then costs more than a step."""

    to_continue: SpeedupThreshold = SpeedupThreshold(mean=1.03, slowest=0.95)
    """If the draft need not prefill. Chosen."""

    most_least_chance: float = 0.85
    """Highest value of `least_chance`. Measured: with a higher one, runs end too soon."""

    horizon: int = 128
    """Most passes over which the cost of prefill is amortised. Chosen."""

    tokens_per_pass: int = 2
    """Assumed tokens per pass, to estimate how many passes a stream has left. Chosen."""

    look_ahead_per_sequence: int = 4
    """Predictions per sequence that the search adds without a gain before it ends. Chosen."""

    min_look_ahead: int = 16
    """The least of them for all sequences. Derived: the cost of passes grows in steps of 16 rows."""

    max_look_ahead: int = 64
    """The most of them for all sequences. Chosen: a search for eight streams takes 36 µs, measured on one core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationConfig:
    """How often something other than the best plan is tried, to measure what it is worth."""

    first_plain_every: int = 16
    """Steps with predictions before one without, at first: the cost of passes without them must be known. Chosen."""

    last_plain_every: int = 128
    """The same later; it doubles. Derived: if speculation is 1.5 times as fast, one step in 128 without it costs 0.3 %.
    """

    first_rest: int = 7
    """Steps before the next search after no plan paid for the same sequences. Chosen."""

    most_later: int = 16
    """Steps in a row without predictions in which a draft may continue. Chosen: if none is useful by then, none is."""

    last_rest: int = 63
    """`first_rest` after many searches in vain; it doubles. Chosen: if a pass takes half a millisecond, a search takes
    a tenth of it.
    """

    first_probe_every: int = 64
    """Steps without predictions before a probe. Chosen."""

    last_probe_every: int = 4096
    """The same after many probes in vain; it doubles. Chosen: three minutes at 45 ms a step."""

    probe_steps: int = 4
    """Steps of a probe. Chosen."""

    probe_length: int = 2
    """Predictions per sequence in a step of a probe. Chosen."""

    first_lengths: tuple[int, ...] = (2, 4, 2, 4)
    """Most predictions in the runs that are verified first, in order. Derived: two lengths are needed to separate a
    draft's delay from its time per prediction.
    """

    rehearsed_lengths: tuple[int, ...] = (1, 4, 2, 5)
    """Predictions in the steps of a rehearsal, in turn. Derived: as above, and for passes of several sizes."""

    longer_every: int = 16
    """One of so many steps with predictions verifies one more than the best plan. Chosen: a position that is never
    verified has no rate.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalConfig:
    """When a target rehearses with its draft, and with which request."""

    max_prompt_tokens: int = 128
    """Most tokens of the prompt. Chosen: enough to measure how fast a draft prefills."""

    num_tokens: int = 64
    """Tokens to generate. Measured: they take 2.7 s with a 1.5B target and a 0.5B draft, int8, on two cores."""

    temperature: float = 0.7
    """Temperature of the draws. Chosen: an ordinary one."""

    draft_wait: float = 0.5
    """Seconds that a target waits for its draft to be linked before it serves without it. Chosen: a running draft is
    linked within a few round trips.
    """

    first_wait: float = 10.0
    """Seconds that it then waits for the first rehearsal to end. Derived: three times its usual time."""

    min_interval: float = 60.0
    """Least seconds between the starts of two rehearsals, if a draft is linked repeatedly. Derived: one takes a few."""

    retry_after: float = 0.5
    """Seconds before the next try while other requests run. Chosen."""

    repeat_after: tuple[float, ...] = (5.0, 20.0, 600.0)
    """Seconds before each repetition; the last one repeats. The first ones because a rehearsal verifies only about
    thirty runs: in the simulation two streams then rejected five good drafts of eight, and none after three rehearsals;
    the last one because the machine's load may have changed. Derived: half a percent of the time of an idle target.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupConfig:
    """Constants of prompt lookup."""

    long_match: int = 8
    """Least tokens of a match that is used before the draft; shorter ones are used after it. Measured on the standard
    library's sources: predictions from a match of eight are right three times in four, for four tokens on average, as
    with a good draft; those from a match of a single token, three times in ten.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConfig:
    """All constants of the policy, by the parts that use them."""

    acceptance: AcceptanceConfig = AcceptanceConfig()
    pass_cost: PassCostConfig = PassCostConfig()
    budget: LossBudgetConfig = LossBudgetConfig()
    search: SearchConfig = SearchConfig()
    exploration: ExplorationConfig = ExplorationConfig()
    rehearsal: RehearsalConfig = RehearsalConfig()
    lookup: LookupConfig = LookupConfig()
    draft: DraftConfig = field(default_factory=DraftConfig)
