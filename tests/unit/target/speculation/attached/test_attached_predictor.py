"""AttachedPredictor: it reads nothing while nobody asks for its predictions, and says why it has none."""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from services.engine.decoder.native import Batch
from services.engine.guidance import Guidance
from services.engine.request import Pooling
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.speculation.attached.attached_predictor import AttachedPredictor
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.predictor import PredictionRequest
from services.target.speculation.speculation import Speculation
from tests.unit.sequences import VOCAB_SIZE, make_request, make_sequence
from tests.unit.simulation import Clock

PARKED_AFTER, AGAIN_AFTER = 64, 2048  # steps


class Drafter:
    """Stands for the native decoder, and predicts what it was given."""

    def __init__(self) -> None:
        self.read: list[list[int]] = []
        self.num_passes = 0

    def read_features(self, results: object, rows: list[int]) -> None:
        self.read.append([*rows])

    def forward(self, batch: Batch) -> None:
        self.num_passes += 1

    def extend(self, batch: Batch, sampler: object, states: list[Any], *_: object) -> list[list[int]]:
        return [[1, 2, 3]] * len(states)


class Target:
    """One sequence, whose passes add a token each."""

    def __init__(self, *, guided: bool = False) -> None:
        self.drafter = Drafter()
        device = SimpleNamespace(synchronize=lambda: None)
        loaded: Any = SimpleNamespace(decoder=self.drafter, num_predictions=3, ends_early=True, device=device)
        batch = Batch(max_rows=64, max_sequences=4, max_blocks=256)
        sampler: Any = None
        self.predictor = AttachedPredictor(loaded, sampler, batch, PolicyConfig())
        request = make_request(b"x" * 40)
        guidance = Guidance(scale=2.0, negative_prompt=(1,)) if guided else None
        self.sequence = make_sequence(replace(request, guidance=guidance))
        self.sequence.text.blocks = [*range(200)]
        self.predictor.commit(self.sequence)

    def why_none(self) -> str:
        """The reason when the next step is planned, after a pass."""
        self._compute()
        return self.predictor.why_none(self.sequence)

    def step(self, wanted: int = 0) -> list[int]:
        """A pass over the rows that are missing, a token, and what is predicted then."""
        self._compute()
        (token_ids,) = self.predictor.predict([PredictionRequest(self.sequence, wanted)])
        return [*token_ids]

    def _compute(self) -> None:
        text = self.sequence.text
        results: Any = object()
        rows = ScheduledRows(self.sequence, len(text.tokens) - text.num_computed, draws=True)
        self.predictor.see(results, [rows])
        text.tokens.append(7)
        text.num_computed = len(text.tokens) - 1
        self.predictor.commit(self.sequence)


async def test_it_reads_the_rows_of_each_pass_and_draws_where_asked():
    target = Target()
    assert target.step() == []
    assert target.step(wanted=3) == [1, 2, 3]
    assert target.drafter.read == [[*range(40)], [0]]
    assert target.drafter.num_passes == 1, "the other one drew"


async def test_it_reads_nothing_while_nobody_asks():
    target = Target()
    for _ in range(PARKED_AFTER + 10):
        target.step()
    assert len(target.drafter.read) == PARKED_AFTER
    for _ in range(AGAIN_AFTER - 8):
        target.step()
    assert len(target.drafter.read) in range(PARKED_AFTER + 1, PARKED_AFTER + 4)


async def test_a_request_lets_it_read_again():
    target = Target()
    for _ in range(PARKED_AFTER + 10):
        target.step()
    assert target.step(wanted=3) == [1, 2, 3]
    assert len(target.drafter.read) == PARKED_AFTER + 1


async def test_a_text_that_it_begins_in_the_middle_gets_none_at_first():
    target = Target()
    target.step()
    assert target.why_none() == ""
    for _ in range(PARKED_AFTER + 10):
        target.step()
    assert target.why_none() == "the drafter has not read the text"
    target.step(wanted=1)
    assert target.why_none() == "the drafter has not read the text"
    for _ in range(20):
        target.step()
    assert target.why_none() == ""


async def test_guided_requests_and_unknown_ones_get_none():
    target = Target(guided=True)
    assert target.step(wanted=3) == []
    assert target.drafter.read == []
    assert "guided" in target.predictor.why_none(target.sequence)


async def test_its_time_is_waited_for_and_is_none_of_the_pass(monkeypatch):
    target, clock = Target(), Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    monkeypatch.setattr(target.drafter, "read_features", lambda *_: setattr(clock, "now", clock.now + 0.5))
    speculation = Speculation([target.predictor], vocab_size=VOCAB_SIZE, clock=clock)
    rows = ScheduledRows(target.sequence, 1, draws=True)
    target.why_none()  # a pass before it
    assert [*speculation.predict([rows], spare_rows=8)] == []
    assert speculation.drafting == 0.5
    clock.now += 0.1
    speculation.observe([rows])
    assert speculation._passes.seconds(1) == pytest.approx(0.1)


async def test_requests_that_draw_nothing_are_not_read():
    target = Target()
    other = make_sequence(replace(make_request(b"x" * 40), pooling=Pooling.MEAN))
    assert not other.request.draws
    target.predictor.commit(other)
    assert other not in target.predictor._contexts


async def test_a_sequence_that_has_ended_is_not_read():
    target = Target()
    results: Any = object()
    target.predictor.see(results, [ScheduledRows(target.sequence, 40, draws=True)])
    target.predictor.close(target.sequence)
    assert [*target.predictor.predict([])] == []
    assert target.drafter.read == []
