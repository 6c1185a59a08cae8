"""PolicyConfig: every constant by which it is decided how many predictions to verify."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Hurdle:
    """How much faster predictions must seem, of all streams together and of the one whose predictions are worst."""

    speed_up: float
    slowest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConfig:
    """Times are in seconds, shares are of the time that decoding without predictions takes."""

    window: float = 2.0  # over which no stream may lose more than `window_loss`
    window_loss: float = 0.02  # where 0.03 is promised: what a step costs is known only behind it
    income: float = 0.005  # of all time, which may be lost for good; 0.01 is promised
    trust: float = 0.75  # of what is expected to be won in a stream's first window, that may be paid in advance
    luck: float = 0.6  # standard deviations of what a stream's tokens in a window differ by, about one for each step
    to_begin: Hurdle = Hurdle(speed_up=1.12, slowest=1.05)
    to_go_on: Hurdle = Hurdle(speed_up=1.03, slowest=0.95)
    caution: float = 6.0  # times as many verdicts as for numbers of predictions, until a stream is thought to be slow
    margin: float = 1.5  # on the wait that is expected
    horizon: int = 128  # passes, in which what it takes to catch up must be won back
    tokens_per_pass: int = 2  # by which it is judged how many passes a stream has yet
    look_ahead: int = 64  # rows that may bring nothing before more of them do; no more than four for each stream
    plain_every: tuple[int, int] = (16, 128)  # steps, at first and later, to see what passes without predictions cost
    rest: int = 7  # steps for which nothing is predicted, once that seemed best, before it is thought about again
    probe_every: int = 64  # plain steps; twice as many after each probe in vain
    longest_interval: int = 4096  # plain steps, between two probes
    probe_steps: int = 4
    probed: int = 2  # predictions in each step of a probe
    first_counts: tuple[int, ...] = (4, 2, 4, 2)  # most predictions in the first steps, which tell a draft's pace
    rehearsed: tuple[int, ...] = (1, 4, 2, 5)  # predictions in the steps of a rehearsal, in turn
    explore_every: int = 16  # steps with predictions, of which one verifies one more than seems best
