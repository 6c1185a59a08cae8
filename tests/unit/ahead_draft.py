"""AheadDraft: a simulated draft on cores of its own, at the end of a link that takes time."""

import math
import random
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.engine.config import MOST_PREDICTIONS
from services.engine.events import FollowCounts
from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.prediction_times import PredictionTimes, SequenceTimes
from services.target.speculation.predictors.predictor import PredictionRequest
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.unit.simulation import Clock, World

TOKEN = 1


@dataclass
class _Chain:
    position: int  # of its first prediction
    began: float  # when the draft did


class AheadDraft(SilentPredictor):
    """Predicts on until a commit contradicts it or stops it; each prediction arrives half a round trip later."""

    def __init__(self, world: World, clock: Clock, chance: random.Random) -> None:
        self._world, self._clock, self._chance = world, clock, chance
        self._chains: dict[Sequence, _Chain] = {}
        self._verified: dict[Sequence, tuple[int, int]] = {}  # from which position on, and how many
        self.busy_until = 0.0

    def now(self) -> float:
        return self._clock.now

    def open(self, sequence: Sequence, num_tokens: int) -> None:
        """It has begun with the prompt before the target."""
        self._chains[sequence] = _Chain(len(sequence.tokens), -math.inf)

    def grow(self, sequence: Sequence, count: int) -> None:
        """It reads no more than it predicts."""

    def times(self, sequences: Seq[Sequence]) -> PredictionTimes:
        each = self._world.step(1)
        own = [self._times_of(sequence, each) for sequence in sequences]
        return PredictionTimes(own, each=each, runs_ahead=True)

    def _times_of(self, sequence: Sequence, each: float) -> SequenceTimes:
        """Its next prediction comes when it comes, and each further one a step later."""
        now = self._clock.now
        num_ready = sum(self._moment(sequence, place) <= now for place in range(1, MOST_PREDICTIONS + 1))
        return SequenceTimes(num_ready, elapsed=now + each - self._moment(sequence, num_ready + 1))

    def ask(self, sequence: Sequence, limit: int, least_chance: float = 0.0) -> None:
        if not limit:
            self._chains.pop(sequence, None)
        elif sequence not in self._chains:
            self._begin(sequence)

    def ask_for(self, request: PredictionRequest) -> None:
        self.ask(request.sequence, 1 if request.keeps_earlier else request.length)

    def rest(self, sequence: Sequence) -> None:
        """It goes on."""

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> list[int]:
        end = min(until, self._moment(sequence, limit)) if limit else 0.0
        self._clock.now = max(self._clock.now, end)
        count = sum(self._moment(sequence, place) <= self._clock.now for place in range(1, limit + 1))
        self._verified[sequence] = (len(sequence.tokens), count)
        return [TOKEN] * count

    def commit(self, sequence: Sequence) -> FollowCounts:
        """Where all predictions were right, the next one has to be too: the target's own token is in its place."""
        if sequence in self._verified and sequence in self._chains:
            position, count = self._verified.pop(sequence)
            is_wrong = len(sequence.tokens) <= position + count
            if is_wrong or self._chance.random() > self._world.chances[0]:
                self._begin(sequence)
        return FollowCounts()

    def close(self, sequence: Sequence) -> FollowCounts:
        self._chains.pop(sequence, None)
        return FollowCounts()

    def _begin(self, sequence: Sequence) -> None:
        """It hears half a round trip from now."""
        self._chains[sequence] = _Chain(len(sequence.tokens), self._clock.now + self._world.delay / 2)

    def _moment(self, sequence: Sequence, count: float) -> float:
        """When so many predictions after the sequence's tokens have arrived."""
        if (chain := self._chains.get(sequence)) is None:
            return self._clock.now + self._world.delay + count * self._world.step(1)
        place = len(sequence.tokens) + count - chain.position
        return chain.began + place * self._world.step(1) + self._world.delay / 2
