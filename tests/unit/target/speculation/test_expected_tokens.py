"""Tokens that a request expects: as many as were right and some more, all with ALWAYS, none after a wrong one."""

from dataclasses import replace

import pytest

from services.engine.cache.block_manager import BlockManager
from services.engine.events import PredictionSource
from services.engine.request import OutputOptions, SpeculationMode, SpeculationPolicy
from services.target.scheduling.limits import SchedulerConfig
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.sequence import Sequence
from services.target.speculation.speculation import Speculation
from tests.unit.sequences import VOCAB_SIZE, draw, make_request, make_sequence
from tests.unit.target.speculation.test_speculation import make_scheduler

TEXT = b"abcdefghijklmnopqrstuvwxyz" * 10


def expecting(answer: bytes = b"", mode: SpeculationMode = SpeculationMode.AUTO, **options: int) -> Sequence:
    """A sequence that expects TEXT, with this answer so far."""
    policy = SpeculationPolicy(mode=mode, expected=tuple(TEXT))
    sequence = make_sequence(make_request(b"x", speculation=policy, max_tokens=500, **options))
    if answer:
        draw(sequence, answer)
    return sequence


@pytest.mark.parametrize(("num_right", "most"), [(0, 16), (1, 17), (17, 33), (100, 116), (200, 60), (260, 0), (300, 0)])
async def test_with_auto_a_few_more_than_were_right_are_verified(num_right: int, most: int) -> None:
    answer = (TEXT * 2)[:num_right]
    assert bytes(expecting(answer).expected(256)) == TEXT[num_right : num_right + most]


async def test_with_always_all_that_are_left() -> None:
    assert bytes(expecting(b"ab", SpeculationMode.ALWAYS).expected(256)) == TEXT[2:258]


@pytest.mark.parametrize("answer", [b"x", b"abcx", b"abxd", b"xbcd"])
async def test_nothing_is_expected_after_a_wrong_token(answer: bytes) -> None:
    sequence = expecting(mode=SpeculationMode.ALWAYS)
    for token_id in answer:
        draw(sequence, bytes([token_id]))
        is_right = TEXT.startswith(bytes(sequence.tokens[sequence.num_prompt :]))
        assert bool(sequence.expected(256)) == is_right
    assert expecting(answer, SpeculationMode.ALWAYS).expected(256) == ()


async def test_tokens_that_are_taken_back_are_compared_again() -> None:
    sequence = expecting(b"abcd", SpeculationMode.ALWAYS)
    assert bytes(sequence.expected(256)[:2]) == b"ef"
    sequence.take_back(2)
    assert bytes(sequence.expected(256)[:2]) == b"cd"
    sequence.append(ord("x"))
    assert sequence.expected(256) == ()
    sequence.take_back(1)
    assert bytes(sequence.expected(256)[:2]) == b"cd"
    sequence.append(ord("c"))
    assert bytes(sequence.expected(256)[:2]) == b"de"


async def test_the_last_token_of_all_is_never_a_prediction() -> None:
    policy = SpeculationPolicy(mode=SpeculationMode.ALWAYS, expected=tuple(TEXT))
    sequence = make_sequence(make_request(b"x", speculation=policy, max_tokens=10))
    assert bytes(sequence.expected(256)) == TEXT[:9]


async def test_they_have_the_rows_of_prompts_and_need_no_predictor() -> None:
    scheduler = make_scheduler(num_blocks=200, max_rows=64)
    sequences = [expecting(b"a", SpeculationMode.ALWAYS) for _ in range(3)]
    speculation = Speculation([], vocab_size=VOCAB_SIZE, most_expected=40)
    for sequence in sequences:
        sequence.text.num_computed = 1
        scheduler.add(sequence)
        speculation.open(sequence)
    batch = scheduler.schedule()
    assert scheduler.expected_rows(batch) == 61
    for rows, token_ids in speculation.predict(
        batch, spare_rows=scheduler.spare_rows, expected_rows=scheduler.expected_rows(batch)
    ):
        scheduler.add_predictions(rows, token_ids)
    assert [len(rows.predictions) for rows in batch] == [40, 21, 0]
    assert [rows.source for rows in batch] == [PredictionSource.EXPECTED, PredictionSource.EXPECTED, None]
    assert sum(rows.num_rows for rows in batch) == 64


async def test_beside_others_they_are_as_few_as_the_rows_of_prompts() -> None:
    config = SchedulerConfig(max_rows=64, prefill_chunk=16, max_sequences=8, prompt_slowdown=2.0)
    scheduler = Scheduler(config, BlockManager(num_blocks=200, block_size=4))
    others = [make_sequence(make_request(b"x")) for _ in range(3)]
    expected = expecting(b"a", SpeculationMode.ALWAYS)
    expected.text.num_computed = 1
    for sequence in (*others, expected):
        scheduler.add(sequence)
    batch = scheduler.schedule()
    assert scheduler.expected_rows(batch[:3]) == 0
    assert scheduler.expected_rows(batch) == 60
    scheduler.observe(batch, 0.010)
    batch[3].predictions, batch[3].source = [1] * 39, PredictionSource.EXPECTED
    scheduler.observe(batch, 0.410)  # each of its rows takes 10 ms
    assert scheduler.expected_rows(batch) == 8  # the fewest


async def test_rows_of_prompts_leave_fewer() -> None:
    scheduler = make_scheduler(num_blocks=200, max_rows=64)
    expected = expecting(b"a", SpeculationMode.ALWAYS)
    expected.text.num_computed = 1
    prompt = make_sequence(make_request(b"x" * 40))
    for sequence in (expected, prompt):
        scheduler.add(sequence)
    batch = scheduler.schedule()
    assert [rows.is_decode for rows in batch] == [True, False]
    assert scheduler.expected_rows(batch) == scheduler.spare_rows == 64 - 1 - 16


async def test_logits_are_large_so_few_are_verified_at_once() -> None:
    scheduler = make_scheduler(num_blocks=200, max_rows=64)
    policy = SpeculationPolicy(mode=SpeculationMode.ALWAYS, expected=tuple(TEXT))
    request = replace(make_request(b"x", speculation=policy), output=OutputOptions(logits=True))
    sequence = make_sequence(request)
    draw(sequence, b"a")
    sequence.text.num_computed = 1
    scheduler.add(sequence)
    batch = scheduler.schedule()
    ((_, predictions),) = Speculation([], vocab_size=VOCAB_SIZE, most_expected=256).predict(
        batch, spare_rows=63, expected_rows=63
    )
    assert bytes(predictions) == TEXT[1:16]
