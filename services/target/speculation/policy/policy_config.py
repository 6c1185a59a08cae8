"""PolicyConfig: every constant of the policy of speculation, with its unit and where it comes from; those about drafts
are in `draft_config.py`.

Where a comment says *chosen*, the value is one with which `test_length_controller.py` holds, a simulation of two pairs
of models as they were measured, of up to 32 streams, and of drafts that are good, useless, slow, silent or deceptive.
*Measured* and *derived* name what by. Times are in seconds; shares and ratios have no unit. What the
hardware or the protocol fixes is no policy and stands where it is used: `MOST_PREDICTIONS` beside `Predictor`, the
bounds of messages in `services/draft_protocol`.
"""

from dataclasses import dataclass, field

from services.target.speculation.policy.draft_config import DraftConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceConfig:
    """How acceptance rates are estimated from verdicts on predictions."""

    prior_rate: float = 0.7
    """Acceptance rate before any verdict. Chosen."""

    prior_verdicts: int = 3
    """Verdicts that the prior counts as. Chosen."""

    confident_after: int = 24
    """Verdicts until an estimate is relied upon in full. Chosen: a rate of 0.7 is then known to 0.09, its deviation."""

    min_weight: float = 0.02
    """Least weight of a new verdict in a position's rate. Chosen: the rate is that of the last 50 verdicts or so."""

    sequence_memory: float = 0.95
    """What a sequence's own verdicts keep of their weight at each new one. Chosen: the last 20 of them count."""

    sequence_trust: float = 4.0
    """Verdicts that all sequences together weigh against a sequence's own. Chosen."""

    caution: float = 6.0
    """Times as many of them until a stream is thought to be slower than the others. Chosen: with many streams some are
    unlucky at any time, and the slowest one decides whether speculation pays.
    """

    max_rate: float = 0.99
    """Highest rate that is believed. Derived: at 1 no prediction would ever seem one too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCostConfig:
    """How the time of a pass is learned from passes."""

    weight: float = 0.1
    """Weight of a new measurement for its own number of rows. Chosen: the last ten or so count."""

    drift: float = 0.08
    """The same for all other numbers of rows. Chosen: what changes a pass, the context and the machine's other load,
    changes passes of every size nearly alike.
    """

    min_passes: int = 3
    """Passes of one size until it counts as known. Chosen."""

    reach: float = 0.25
    """Share of the largest measured pass by which one may be larger, beside the predictions of one sequence. Chosen:
    further out, no measurement is near.
    """

    max_error: float = 0.5
    """Largest logarithm of a ratio that is believed. Derived: a hiccup counts as 1.65 at most, and weighs 5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossBudgetConfig:
    """What speculation may lose of the time that decoding takes without it."""

    window: float = 2.0
    """Length of the windows of a stream's life that the promise is about. Promised."""

    window_loss: float = 0.02
    """Share of any window that may be lost. Derived: 0.03 is promised, and what a step costs is known only
    behind it.
    """

    trial_loss: float = 0.05
    """The same where a draft is tried of which little is known. Chosen: it pays for reading a short prompt."""

    income: float = 0.005
    """Share of all time that may be lost for good. Derived: half of the 0.01 that is promised."""

    reopen_at: float = 0.5
    """Share of a window's loss that there must be to lose again, once more was lost than may be for good. Chosen."""

    unknown_wait: float = 0.5
    """Share of what a step may lose that it waits for a draft of which nothing is known. Derived: one that answers late
    is at work beside the next pass too.
    """

    trust: float = 0.75
    """Share of the gain expected in a stream's first window that may be spent on prefill in advance. Chosen."""

    luck: float = 0.6
    """Standard deviations of bad luck that a window with prefill must survive; a stream's tokens differ from those that
    are expected by about one for each step. Chosen.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupThreshold:
    """How much faster speculation must seem, as ratios to decoding without it."""

    mean: float
    """For all streams together."""

    slowest: float
    """For the one whose predictions are worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """How the lengths of the highest goodput are searched for, and when they are good enough."""

    to_begin: SpeedupThreshold = SpeedupThreshold(mean=1.12, slowest=1.05)
    """Where the draft has to prefill first. Chosen: if that was wrong, more is lost than a step."""

    to_continue: SpeedupThreshold = SpeedupThreshold(mean=1.03, slowest=0.95)
    """Where it has not. Chosen."""

    most_least_chance: float = 0.85
    """Highest chance of being right that is asked of a run so that it goes on. Measured: above, it ends too soon."""

    horizon: int = 128
    """Passes over which the prefill is shared out at most. Chosen."""

    tokens_per_pass: int = 2
    """Tokens by which it is judged how many passes a stream has left. Chosen."""

    look_ahead_per_sequence: int = 4
    """Predictions for each sequence that the search adds without a gain before it ends. Chosen."""

    min_look_ahead: int = 16
    """The least of them for all sequences. Derived: passes get dearer in steps of 16 rows."""

    max_look_ahead: int = 64
    """The most of them for all sequences. Chosen: a search for eight streams takes 36 µs, measured on one core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationConfig:
    """How often something other than the best is done, so that what it is worth is known."""

    first_plain_every: int = 16
    """Steps with predictions until one without, at first: what passes cost without them must be known. Chosen."""

    last_plain_every: int = 128
    """The same later; it doubles. Derived: where speculation is 1.5 times as fast, one step in 128 without it
    costs 0.3 %.
    """

    first_rest: int = 7
    """Steps until it is searched again once nothing paid for the same sequences. Chosen."""

    most_later: int = 16
    """Steps in a row without predictions in which a draft may run on. Chosen: if none is of use by then, none is."""

    last_rest: int = 63
    """The same after many searches in vain; it doubles. Chosen: where a pass takes half a millisecond, a search is a
    tenth of it.
    """

    first_probe_every: int = 64
    """Steps without predictions until a probe. Chosen."""

    last_probe_every: int = 4096
    """The same after many probes in vain; it doubles. Chosen: three minutes at 45 ms a step."""

    probe_steps: int = 4
    """Steps of a probe. Chosen."""

    probe_length: int = 2
    """Predictions per sequence in a step of a probe. Chosen."""

    first_lengths: tuple[int, ...] = (2, 4, 2, 4)
    """Most predictions in the runs that are verified first, in order. Derived: two lengths tell a draft's delay from
    its time per prediction.
    """

    rehearsed_lengths: tuple[int, ...] = (1, 4, 2, 5)
    """Predictions in the steps of a rehearsal, in turn. Derived: as above, and to measure passes of several sizes."""

    longer_every: int = 16
    """Steps with predictions, of which one verifies one more than is best. Chosen: what is never tried has no rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalConfig:
    """When a target rehearses with its draft, and with what."""

    max_prompt_tokens: int = 128
    """Tokens of the prompt at most. Chosen: enough to measure how fast a draft prefills."""

    num_tokens: int = 64
    """Tokens that are generated. Measured: they take 2.7 s of a 1.5B target and a 0.5B draft, int8, on two cores."""

    temperature: float = 0.7
    """Temperature of the draws. Chosen: an ordinary one."""

    draft_wait: float = 0.5
    """Seconds that a target waits for its draft to be linked before it serves without it. Chosen: a draft that is there
    is linked within a few round trips.
    """

    first_wait: float = 10.0
    """Seconds that it then waits for the first rehearsal to be over. Derived: three times what one takes."""

    min_interval: float = 60.0
    """Seconds between two beginnings, where a draft comes and goes. Derived: a rehearsal takes a few."""

    retry_after: float = 0.5
    """Seconds until the next try, while there is something else to do. Chosen."""

    repeat_after: tuple[float, ...] = (5.0, 20.0, 600.0)
    """Seconds after which it is done again, the last for good: first since one rehearsal judges some thirty runs, by
    which in the simulation two streams left five good drafts of eight alone, and after three none; then since the
    machine may have become another. Derived: half a percent of the time of a target with nothing to do.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupConfig:
    """Prompt lookup."""

    long_match: int = 8
    """Tokens of a match that is tried before the draft is asked; shorter ones come behind it. Measured on the standard
    library's sources: what follows a match of eight is right three times in four, and for four tokens on average, as
    far as a good draft gets; behind one of a single token, three times in ten.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConfig:
    """All of it; each part is handed to whom it concerns."""

    acceptance: AcceptanceConfig = AcceptanceConfig()
    pass_cost: PassCostConfig = PassCostConfig()
    budget: LossBudgetConfig = LossBudgetConfig()
    search: SearchConfig = SearchConfig()
    exploration: ExplorationConfig = ExplorationConfig()
    rehearsal: RehearsalConfig = RehearsalConfig()
    lookup: LookupConfig = LookupConfig()
    draft: DraftConfig = field(default_factory=DraftConfig)
