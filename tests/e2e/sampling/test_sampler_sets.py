"""Two hundred random sets of samplers: an answer is the same bytes with predictions, company, preemption and cuts.

A part of them in which every two parameters meet runs with all other tests, the rest with `make matrix`.
"""

from dataclasses import replace
from typing import Any

import pytest

from services.engine.request import Request
from tests.e2e.harness.sampler_sets import NUM_SETS, all_pairs, covering_sets, pairs_of, sampler_set, unknown_numbers
from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.cells import SCRIPTED
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of
from tests.e2e.matrix.transcript import Transcript
from tests.harness.models.checkpoints import VOCAB_SIZE

MODELS = ("llama", "qwen3", "gemma2")
NEW_TOKENS = 24
COVERING = covering_sets()
REST = sorted({*range(NUM_SETS)} - {*COVERING})


def wanted(index: int, **fields: Any) -> Request:
    prompt = prompt_of(_model_of(index), 4)
    return request(prompt, request_id=str(index), max_tokens=NEW_TOKENS, **sampler_set(index), **fields)


def company(index: int) -> Request:
    """Another set beside it, whose answer takes the blocks that there are."""
    other = {**sampler_set((index + 1) % NUM_SETS), "temperature": 1.0}
    return request(prompt_of(_model_of(index), 7), max_tokens=60, **other)


def _model_of(index: int) -> str:
    return MODELS[index % len(MODELS)]


def _predicting(index: int, whole: Transcript, **engine: Any) -> Stepper:
    kind = SCRIPTED[index % len(SCRIPTED)]
    predictor = ScriptedPredictor(
        lambda name: (kind, whole.token_ids) if name == str(index) else None, vocab_size=VOCAB_SIZE
    )
    return Stepper(_model_of(index), predictors=[predictor], **engine)


async def assert_nothing_changes_it(index: int) -> None:
    whole = await Stepper(_model_of(index)).complete(wanted(index))
    stepper = _predicting(index, whole, num_blocks=9, prefill_chunk=16)
    other = stepper.submit(company(index))
    generation = stepper.submit(wanted(index, num_predictions=4))
    stepper.run()
    assert await generation.transcript() == whole
    await other.read()
    for cut in {1, len(whole.token_ids) // 2} & {*range(len(whole.token_ids))}:
        received = whole.token_ids[:cut]
        rest = await _predicting(index, whole).complete(replace(wanted(index, num_predictions=4), received=received))
        assert (*received, *rest.token_ids) == whole.token_ids
        assert rest.records == whole.records[cut:]


@pytest.mark.parametrize("index", COVERING)
async def test_nothing_changes_an_answer_of_the_covering_sets(index: int) -> None:
    await assert_nothing_changes_it(index)


@pytest.mark.exhaustive
@pytest.mark.parametrize("index", REST)
async def test_nothing_changes_an_answer_of_the_other_sets(index: int) -> None:
    await assert_nothing_changes_it(index)


def test_the_sets_have_every_number_and_every_two_parameters() -> None:
    assert unknown_numbers() == set()
    covered = set[tuple[str, str]]().union(*(pairs_of(sampler_set(index)) for index in COVERING))
    assert covered == all_pairs()
    assert len(COVERING) < NUM_SETS / 4
