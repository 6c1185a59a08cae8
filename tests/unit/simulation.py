"""Simulation: the speculation policy on a simulated machine and clock, and what each stream loses and gains by it."""

import math
import random
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Protocol

from services.engine.events import FollowCounts
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.sequence.sequence import Sequence
from services.target.speculation.link.draft_prefill_rate import DraftPrefillRate
from services.target.speculation.link.joint_answers import JointAnswers
from services.target.speculation.link.wait_limit import WaitLimit
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.prediction_times import PredictionTimes, SequenceTimes
from services.target.speculation.predictors.predictor import Predictor
from services.target.speculation.speculation import Speculation
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.unit.sequences import VOCAB_SIZE, make_request, make_sequence, records_of

WINDOW = 2.0
_TOKEN = 1
_BEHIND = 16  # tokens, beyond which a draft has to read
_SPARE_ROWS = 512  # there is room for all
_CHUNK = 0.1  # seconds until a draft stops after a commit that says so
_DISTURBANCE = 1.6  # by which passes take longer beside a busy draft


@dataclass
class World:
    """A target and its draft; times in seconds."""

    cost: Callable[[int], float] = lambda num_rows: 0.035 * (1 + 0.015 * (num_rows - 1))
    chances: Seq[float] = (0.75,)  # of each prediction to be right, by stream in turn
    delay: float = 0.003
    step: Callable[[int], float] = lambda num_rows: 0.010 + 0.0003 * num_rows  # of the draft, with so many sequences
    reading: float = 0.0007  # for a token
    prompt: int = 128
    noise: float = 0.05
    num_streams: int = 1
    num_tokens: int = 128  # of a stream
    is_silent: bool = False
    rehearsed: float | None = None  # chance of a prediction to be right in the rehearsal, if it is another
    runs: Seq[int] = ()  # right predictions from each token of a stream on; then chances do not matter
    rehearsed_runs: Seq[int] = ()


@dataclass
class Clock:
    """What time it is."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class SimulatedDraft(SilentPredictor):
    """Takes its time for reading and predicting, on the target's cores, and is right as often as its world says."""

    def __init__(self, world: World, clock: Clock, chance: random.Random) -> None:
        self._world, self._clock, self._chance = world, clock, chance
        config = PolicyConfig()
        self._wait_limit, self._prefill_rate = WaitLimit(config), DraftPrefillRate(config)
        self._unread: dict[Sequence, int] = {}
        self._asked: dict[Sequence, int] = {}
        self._asked_at = self._answers_at = self._each = 0.0  # answers come so long after it, and for each prediction
        self._fresh: set[Sequence] = set()
        self._joint = JointAnswers()
        self.busy_until = 0.0

    @property
    def is_busy(self) -> bool:  # type: ignore[override]
        return self._clock.now < self.busy_until

    def times(self, sequences: Seq[Sequence]) -> PredictionTimes:
        limit, latency = self._wait_limit, self._wait_limit.latency
        each = [SequenceTimes(reading=self._reading(sequence)) for sequence in sequences]
        return PredictionTimes(
            each,
            delay=limit.delay,
            each=latency.each,
            growth=latency.growth,
            is_trusted=latency.is_known and not limit.is_silent,
        )

    def _reading(self, sequence: Sequence) -> float | None:
        unread = self._unread[sequence]
        if sequence in self._fresh:
            return self._prefill_rate.remaining(id(sequence), self._clock.now)
        return self._prefill_rate.seconds(unread) if unread > _BEHIND else 0.0

    def now(self) -> float:
        return self._clock.now

    def commit(self, sequence: Sequence) -> FollowCounts:
        self._asked.clear()
        return FollowCounts()

    def open(self, sequence: Sequence, num_tokens: int) -> None:
        """A sequence is new, and has so many tokens."""
        self._unread[sequence] = num_tokens

    def grow(self, sequence: Sequence, count: int) -> None:
        """So many tokens were committed."""
        self._unread[sequence] += count

    def ask(self, sequence: Sequence, limit: int, least_chance: float = 0.0) -> None:
        if limit:
            self._joint.ask(is_reading=self._unread[sequence] > _BEHIND)
            self._asked[sequence] = limit
            if self._unread[sequence] > _BEHIND:
                self._fresh.add(sequence)
                self._prefill_rate.asked(id(sequence), self._unread[sequence], self._clock.now)

    def send(self) -> None:
        self._joint.send()

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> list[int]:
        if not limit or sequence not in self._asked:
            return []
        if self._answers_at < self._clock.now and sequence is next(iter(self._asked)):
            self._begin()
        answers_at = self._answers_at + max(self._asked.values()) * self._each  # all come with the longest
        if answers_at <= until:
            self._clock.now = max(self._clock.now, answers_at)
            self._answer(sequence, limit, answers_at)
            return [_TOKEN] * limit
        if until > self._clock.now:
            self._clock.now = until
            self._wait_limit.missed(self._asked_at, until)
            self._prefill_rate.missed(until)
            self.busy_until = min(answers_at, until + _CHUNK)
            if not self._world.is_silent:
                self._read_on(self.busy_until - self._asked_at - self._world.delay)
        return []

    def close(self, sequence: Sequence) -> FollowCounts:
        self._unread.pop(sequence, None)
        self._asked.pop(sequence, None)
        self._fresh.discard(sequence)
        self._prefill_rate.gave_up(id(sequence))
        return FollowCounts()

    def _begin(self) -> None:
        world, self._asked_at = self._world, self._clock.now
        reading = world.reading * sum(
            self._unread[sequence] for sequence in self._asked if self._unread[sequence] > _BEHIND
        )
        noise = max(0.5, self._chance.gauss(1, world.noise))
        self._each = world.step(len(self._asked)) * noise
        self._answers_at = math.inf if world.is_silent else self._clock.now + (world.delay + reading) * noise

    def _read_on(self, seconds: float) -> None:
        """No stream waits any longer, but the draft keeps what it has read so far."""
        for sequence in self._asked:
            num_read = min(self._unread[sequence], int(max(0.0, seconds) / self._world.reading))
            self._unread[sequence] -= num_read
            seconds -= num_read * self._world.reading

    def _answer(self, sequence: Sequence, limit: int, at: float) -> None:
        self._wait_limit.heard()
        if count := self._joint.arrive(limit):
            self._wait_limit.arrived(count, at - self._asked_at, num_sequences=len(self._asked))
        drawing = self._wait_limit.expected(limit, num_sequences=len(self._asked))
        self._prefill_rate.answered(id(sequence), at - drawing)
        self._unread[sequence] = 0
        self._fresh.discard(sequence)


@dataclass
class Life:
    """A stream's steps: when each ended, its tokens, and how many there would have been without predictions."""

    ends: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Over the whole life."""
        return sum(self.tokens) / sum(self.plain)

    def worst_window(self) -> float:
        """The lowest ratio in any window; 1 where the life is shorter."""
        worst, begin, tokens, plain = 1.0, 0, 0.0, 0.0
        for end, moment in enumerate(self.ends):
            tokens, plain = tokens + self.tokens[end], plain + self.plain[end]
            while moment - self.ends[begin] > WINDOW:
                worst = min(worst, tokens / plain)
                begin += 1
                tokens, plain = tokens - self.tokens[begin - 1], plain - self.plain[begin - 1]
        return worst


class Draft(Predictor, Protocol):
    """A simulated one; it is made of its world, the clock, and what chance decides."""

    busy_until: float

    def open(self, sequence: Sequence, num_tokens: int) -> None:
        """A sequence is new, and has so many tokens."""

    def grow(self, sequence: Sequence, count: int) -> None:
        """So many tokens were committed."""


class Simulation:
    """Waves of streams, one after another; `lives` has what became of each."""

    def __init__(
        self, world: World, seed: int = 1, draft: Callable[[World, Clock, random.Random], Draft] = SimulatedDraft
    ) -> None:
        self.world, self.clock, self._chance = world, Clock(), random.Random(seed)
        self.draft = draft(world, self.clock, self._chance)
        self.speculation = Speculation([self.draft], vocab_size=VOCAB_SIZE, clock=self.clock)
        self.lives: list[Life] = []
        self.counts: list[int] = []

    def rehearse(self) -> "Simulation":
        """What a target does when a draft connects while no request waits."""
        sequence = make_sequence(make_request(b"x" * 128, max_tokens=64))
        self._open(sequence, 128)
        self.speculation.rehearse(sequence)
        chances = self.world.chances
        expected = sum(chances) / len(chances) if self.world.rehearsed is None else self.world.rehearsed
        self._generate({sequence: (Life(), expected)}, 64, self.world.rehearsed_runs)
        return self

    def run(self, num_waves: int) -> "Simulation":
        for _ in range(num_waves):
            self._wave()
        return self

    @property
    def ratio(self) -> float:
        """Over all lives, against generating without predictions."""
        return sum(sum(life.tokens) for life in self.lives) / sum(sum(life.plain) for life in self.lives)

    def _wave(self) -> None:
        chances, live = self.world.chances, {}
        for number in range(self.world.num_streams):
            sequence = make_sequence(make_request(b"x" * self.world.prompt, max_tokens=self.world.num_tokens))
            live[sequence] = (Life(), chances[number % len(chances)])
            self._open(sequence, self.world.prompt)
            self.speculation.open(sequence)
        self.lives += [life for life, _ in live.values()]
        self._generate(live, self.world.num_tokens, self.world.runs)

    def _open(self, sequence: Sequence, num_tokens: int) -> None:
        self.draft.open(sequence, num_tokens)
        sequence.text.num_computed = len(sequence.tokens) - 1

    def _generate(self, live: dict[Sequence, tuple[Life, float]], num_tokens: int, runs: Seq[int]) -> None:
        while live:
            self._step(live, runs)
            for sequence in [each for each, (life, _) in live.items() if sum(life.tokens) >= num_tokens]:
                self.speculation.close(sequence)
                del live[sequence]

    def _step(self, live: dict[Sequence, tuple[Life, float]], runs: Seq[int]) -> None:
        began, world = self.clock.now, self.world
        batch = [ScheduledRows(sequence, 1, draws=True) for sequence in live]
        for rows, predictions in self.speculation.predict(batch, spare_rows=_SPARE_ROWS):
            rows.predictions = predictions
        num_rows = sum(rows.num_rows for rows in batch)
        disturbed = max(0.0, min(self.draft.busy_until - self.clock.now, world.cost(num_rows)))
        true_pass = world.cost(num_rows) + disturbed * (_DISTURBANCE - 1)
        waited = self.clock.now - began
        self.clock.now += true_pass * max(0.5, self._chance.gauss(1, world.noise))
        plain = (waited + true_pass) / world.cost(len(batch))
        self.counts.append(num_rows - len(batch))
        for rows in batch:
            life, chance = live[rows.sequence]
            num_accepted = self._judge(len(rows.predictions), chance, runs[int(sum(life.tokens)) :])
            rows.sequence.text.tokens += [_TOKEN] * (1 + num_accepted)
            rows.sequence.text.num_computed = len(rows.sequence.tokens) - 1
            self.draft.grow(rows.sequence, 1 + num_accepted)
            self.speculation.settle(rows, records_of([_TOKEN] * (1 + num_accepted), num_accepted))
            life.ends.append(self.clock.now)
            life.tokens.append(1 + num_accepted)
            life.plain.append(plain)
        self.speculation.observe(batch)

    def _judge(self, num_predictions: int, chance: float, runs: Seq[int]) -> int:
        """How many predictions are right, as recorded or by chance."""
        if runs:
            return min(num_predictions, runs[0])
        wrong = (index for index in range(num_predictions) if self._chance.random() >= chance)
        return next(wrong, num_predictions)
