"""AttachedPredictor: it reads nothing while nobody asks for its predictions, and says why it has none."""

import time
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from services.engine.cache.block_manager import BlockManager
from services.engine.checkpoint.model_config import FeatureBlock
from services.engine.decoder.native import BLOCK_SIZE, Batch
from services.engine.guidance import Guidance
from services.engine.request import Pooling, SpeculationMode, SpeculationPolicy
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.sequence.sequence import Sequence
from services.target.speculation.attached.attached_predictor import AttachedPredictor
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.policy.regret import Regret
from services.target.speculation.policy.speculation_plan import StepSize
from services.target.speculation.predictors.predictor import PredictionRequest
from services.target.speculation.source import AttachedSource
from services.target.speculation.speculation import Speculation
from tests.unit.sequences import VOCAB_SIZE, make_request, make_sequence
from tests.unit.simulation import Clock

PARKED_AFTER, AGAIN_AFTER = 16, 2048  # steps


class Drafter:
    """Stands for the native decoder, and predicts what it was given."""

    def __init__(self) -> None:
        self.read: list[list[int]] = []
        self.positions: list[list[int]] = []
        self.drawn_at: list[int] = []  # positions
        self.num_passes = 0
        self.counts: list[int] = []  # of predictions that were asked

    def read_features(self, results: object, rows: list[int]) -> None:
        self.read.append([*rows])

    def extend(
        self, batch: Batch, sampler: object, states: list[Any], chains: Any, counts: list[int], *_: object
    ) -> list[list[int]]:
        self.counts += counts
        if states:
            self.drawn_at += batch.positions[: batch.num_rows].tolist()
        if not states:
            self.positions.append(batch.positions[: batch.num_rows].tolist())
            self.num_passes += 1
        return [[1, 2, 3]] * len(states)


class Shortlist:
    """Notes the texts that it is given."""

    def __init__(self) -> None:
        self.texts: list[tuple[list[int], str | None]] = []
        self.num_masks = 0

    def note(self, texts: list[tuple[list[int], str | None]]) -> None:
        self.texts += [([*token_ids], cache_scope) for token_ids, cache_scope in texts]

    def allow(self, masks: Iterable[Any]) -> None:
        self.num_masks += len([*masks])


class Target:
    """One sequence, whose passes add a token each."""

    def __init__(self, *, guided: bool = False, block: FeatureBlock | None = None, reads_target: bool = False) -> None:
        self.drafter, self.shortlist = Drafter(), Shortlist()
        self.blocks = BlockManager(num_blocks=256, block_size=BLOCK_SIZE, keeps_prefixes=False)
        device = SimpleNamespace(synchronize=lambda: None)
        own = {
            "name": "some/head",
            "path": "some/head",
            "doubts": "eagle_aux_hidden_state_layer_ids",
            "num_predictions": 3,
            "ends_early": True,
            "block": block,
            "reads_target": reads_target,
        }
        loaded: Any = SimpleNamespace(decoder=self.drafter, device=device, shortlist=self.shortlist, **own)
        batch = Batch(max_rows=64, max_sequences=4, max_blocks=256)
        sampler: Any = None
        self.predictor = AttachedPredictor(loaded, sampler, batch, self.blocks, PolicyConfig())
        request = make_request(b"x" * 40)
        guidance = Guidance(scale=2.0, negative_prompt=(1,)) if guided else None
        self.sequence = make_sequence(replace(request, guidance=guidance))
        self.blocks.grow(self.sequence.text, 200 * BLOCK_SIZE)
        self.predictor.commit(self.sequence)

    def why_none(self) -> str:
        """The reason when the next step is planned, after a pass."""
        self.compute()
        return self.predictor.why_none(self.sequence)

    def step(self, wanted: int = 0) -> list[int]:
        """A pass over the rows that are missing, a token, and what is predicted then."""
        self.compute()
        (token_ids,) = self.predictor.predict([PredictionRequest(self.sequence, wanted)])
        return [*token_ids]

    def compute(self, *others: Sequence) -> None:
        """One pass, which adds a token to each sequence."""
        sequences = (self.sequence, *others)
        results: Any = object()
        self.predictor.see(results, [ScheduledRows(each, each.text.num_pending, draws=True) for each in sequences])
        for each in sequences:
            each.text.tokens.append(7)
            each.text.num_computed = len(each.text.tokens) - 1
            self.predictor.commit(each)


async def test_it_reads_the_rows_of_each_pass_and_draws_where_asked():
    target = Target()
    assert target.step() == []
    assert target.step(wanted=3) == [1, 2, 3]
    assert target.drafter.read == [[*range(40)], [0]]
    assert target.drafter.num_passes == 1, "the other one drew"


async def test_one_that_reads_its_target_reads_a_row_where_it_draws():
    target = Target(reads_target=True)
    assert target.why_none() == ""
    assert target.step(wanted=3) == [1, 2, 3]
    for _ in range(PARKED_AFTER + 10):
        target.step()
    assert target.why_none() == "", "it has nothing to read before"
    assert target.step(wanted=3) == [1, 2, 3]
    assert target.drafter.read == [[0], [0]]
    assert target.drafter.drawn_at == [41, 41 + PARKED_AFTER + 12], "at the position after the last row"


@pytest.mark.parametrize("num_found", [0, BLOCK_SIZE])
async def test_rows_that_were_lost_are_not_read_from_the_pass(num_found):
    target = Target(reads_target=True)
    target.step()
    target.compute()
    target.sequence.text.num_computed = num_found  # it was preempted, and goes on after what is in the cache
    assert target.predictor.why_none(target.sequence)
    (token_ids,) = target.predictor.predict([PredictionRequest(target.sequence, 3)])
    assert ([*token_ids], target.drafter.read) == ([], [])


BLOCK = FeatureBlock(size=6, mask_token=0)


@pytest.mark.parametrize(("block", "most"), [(BLOCK, 5), (replace(BLOCK, first_predicts=True), 6)])
async def test_no_more_than_a_block_is_asked(block, most):
    target, config = Target(block=block), PolicyConfig()
    assert target.step(wanted=15) == [1, 2, 3]
    assert target.step(wanted=2) == [1, 2, 3]
    assert target.drafter.counts == [most, 2]
    source = AttachedSource(target.predictor, PassCost(config), Regret(config, Clock()), config)
    policy = SpeculationPolicy(mode=SpeculationMode.ALWAYS, num_predictions=15)
    sequence = make_sequence(make_request(b"x", speculation=policy, max_tokens=100))
    plan = source.plan([sequence], StepSize(num_rows=1, spare_rows=99))
    assert [*plan.lengths] == [most]


@pytest.mark.parametrize(
    ("block", "asked"),
    [(None, 2), (BLOCK, 0), (replace(BLOCK, first_predicts=True), 1), (replace(BLOCK, continues_rows=True), 2)],
)
async def test_blocks_of_the_cache_hold_all_rows_that_are_written(block, asked):
    """There is room for one more row than are read, and a chain does not write that of its last prediction."""
    target = Target(block=block)
    length = len(target.sequence.text.tokens)
    target.compute()
    del target.sequence.text.blocks[2:]
    target.sequence.text.tokens += [7] * (2 * BLOCK_SIZE - length - 1)
    target.sequence.text.num_computed = len(target.sequence.text.tokens) - 1
    target.blocks.grow_together = lambda *_: None
    (token_ids,) = target.predictor.predict([PredictionRequest(target.sequence, 5)])
    assert bool(token_ids) == bool(asked)
    assert target.drafter.counts == [asked] * (asked > 0)


@pytest.mark.parametrize(("block", "growth"), [(None, 3.0), (BLOCK, 1.0)])
async def test_predictions_of_a_block_are_taken_to_come_together(monkeypatch, block, growth):
    target, clock = Target(block=block), Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    monkeypatch.setattr(target.drafter, "read_features", lambda *_: setattr(clock, "now", clock.now + 0.5))
    target.step()
    target.step(wanted=1)
    target.step(wanted=1)
    waits = target.predictor.times([target.sequence]).waits(3)[0]
    assert waits[2] == pytest.approx(growth * waits[0])


async def test_all_tokens_that_it_reads_come_onto_its_shortlist():
    target = Target()
    target.step()
    target.step(wanted=3)
    scope = target.sequence.text.cache_scope
    assert target.shortlist.texts == [([*target.sequence.text.tokens[1:41]], scope), ([7], scope)]
    assert target.shortlist.num_masks == 1


async def test_masks_of_private_texts_are_not_put_on_its_shortlist():
    target = Target()
    target.sequence.text.cache_scope = "a scope of its own"
    target.step()
    target.step(wanted=3)
    assert target.shortlist.num_masks == 0


async def test_it_reads_nothing_while_nobody_asks():
    target = Target()
    for _ in range(PARKED_AFTER + 10):
        target.step()
    assert len(target.drafter.read) == PARKED_AFTER + 1, "and the prompt"
    for _ in range(AGAIN_AFTER - 6):
        target.step()
    assert len(target.drafter.read) in range(PARKED_AFTER + 2, PARKED_AFTER + 5)


async def test_a_request_lets_it_read_again():
    target = Target()
    for _ in range(PARKED_AFTER + 10):
        target.step()
    assert target.step(wanted=3) == [1, 2, 3]
    assert len(target.drafter.read) == PARKED_AFTER + 2


async def test_it_reads_again_when_there_are_fewer_sequences():
    target = Target()
    others = [make_sequence(make_request(b"y" * 10)) for _ in range(2)]
    for index, other in enumerate(others):
        other.text.blocks = [*range(210 + 20 * index, 230 + 20 * index)]
    has_read = []
    for count in (2, 2, 1, 2, 1, 0, 2):
        for other in others[count:]:
            target.predictor.close(other)
        before = len(target.drafter.read)
        for _ in range(4 * PARKED_AFTER):
            target.compute(*others[:count])
            assert [*target.predictor.predict([])] == []
        has_read.append(len(target.drafter.read) > before)
        before = len(target.drafter.read)
        target.compute(*others[:count])
        assert [*target.predictor.predict([])] == []
        assert len(target.drafter.read) == before, "parked"
    assert has_read == [True, False, True, False, False, True, False]


async def test_a_text_that_it_begins_in_the_middle_gets_none_at_first():
    target = Target()
    target.step()
    assert target.why_none() == ""
    for _ in range(3 * PARKED_AFTER):
        target.step()
    assert target.why_none() == "the drafter has not read the text"
    target.step(wanted=1)
    assert target.why_none() == "the drafter has not read the text"
    for _ in range(20):
        target.step()
    assert target.why_none() == ""


async def test_a_text_goes_on_after_blocks_that_were_read_for_another():
    target = Target()
    target.step()
    target.step()
    for blocks, start, why_none in (([0], 0, ""), ([9], BLOCK_SIZE, "the drafter has not read the text")):
        other = make_sequence(make_request(b"x" * 40))
        other.text.blocks = [*(target.sequence.text.blocks[each] for each in blocks), 250]
        other.text.num_computed = BLOCK_SIZE
        target.predictor.commit(other)
        results: Any = object()
        target.predictor.see(results, [ScheduledRows(other, 8, draws=True)])
        other.text.tokens.append(7)
        other.text.num_computed = 40
        assert target.predictor.why_none(other) == why_none
        assert [*target.predictor.predict([])] == []
        assert target.drafter.positions[-1] == [*range(BLOCK_SIZE - start, 40 - start)]


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


@pytest.mark.parametrize(("num_right", "told_after"), [(0, 40), (3, 40), (4, 200), (39, 200), (40, None)])
async def test_a_drafter_hardly_ever_right_is_reported_once(caplog, num_right, told_after):
    target, config, clock = Target(), PolicyConfig(), Clock()
    source = AttachedSource(target.predictor, PassCost(config), Regret(config, clock), config)
    reported = []
    for index in range(400):
        source.settle(target.sequence, 3, 1 if index < num_right else 0)
        reported += [index + 1] * len(caplog.records)
        caplog.clear()
    assert reported == ([told_after] if told_after else [])


async def test_the_report_names_the_drafter_and_the_reasons(caplog):
    target, config, clock = Target(), PolicyConfig(), Clock()
    source = AttachedSource(target.predictor, PassCost(config), Regret(config, clock), config)
    for _ in range(40):
        source.settle(target.sequence, 3, 0)
    assert "some/head: of the attached drafter some/head only 0 of 40 first predictions were right" in caplog.text
    assert "eagle_aux_hidden_state_layer_ids" in caplog.text


async def test_it_reads_nothing_while_another_source_serves_all():
    target = Target()
    target.step(wanted=3)
    for _ in range(PARKED_AFTER + 10):
        target.compute()
        assert [*target.predictor.predict([])] == []
    assert len(target.drafter.read) == PARKED_AFTER + 1


async def test_a_text_that_lost_its_blocks_has_no_context():
    target = Target()
    target.step()
    target.step()
    other = make_sequence(make_request(b"x" * 40))
    other.text.blocks, other.text.num_computed = [*target.sequence.text.blocks[:1], 250], BLOCK_SIZE
    target.predictor.commit(other)
    results: Any = object()
    target.predictor.see(results, [ScheduledRows(other, 8, draws=True)])
    other.text.blocks, other.text.num_computed = [], 0  # preempted
    assert "has not read" in target.predictor.why_none(other)
    assert [*target.predictor.predict([])] == []


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
