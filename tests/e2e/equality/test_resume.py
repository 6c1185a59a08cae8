"""A stream that is cut anywhere continues with the same bytes, and only where they would be the same."""

from dataclasses import replace
from typing import Any

import grpc
import pytest

from outrider.v1 import generation_pb2
from services.engine.events import Chunk
from services.engine.request import Request
from tests.e2e.harness.models import folder
from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of
from tests.e2e.matrix.transcript import Transcript
from tests.harness.servers.loop_thread import PATIENCE_SECONDS
from tests.harness.servers.server import target_server

MODELS = ("llama", "qwen3", "gemma2", "qwen3_5")
PROMPT = prompt_of("llama", 4)
NEW_TOKENS = 40
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.8, "top_p": 0.9},
    "penalised": {"repetition_penalty": 1.2, "frequency_penalty": 0.7, "presence_penalty": 0.5},
    "held off": {"temperature": 1.0, "min_tokens": 25, "token_ids": frozenset(range(30, 60))},
}


async def whole_answer(model: str, wanted: Request) -> tuple[Transcript, dict[int, str]]:
    """An uninterrupted answer, and its text after every number of tokens."""
    transcript, generation = await Stepper(model).one_by_one(wanted)
    return transcript, generation.boundaries()


async def assert_goes_on_from_every_cut(stepper: Stepper, wanted: Request, whole: Transcript, texts: dict[int, str]):
    for cut in range(len(whole.token_ids) + 1):
        generation = stepper.submit(replace(wanted, received=whole.token_ids[:cut]))
        stepper.run()
        rest = await generation.transcript()
        assert rest.token_ids == whole.token_ids[cut:]
        assert rest.records == whole.records[cut:]
        assert texts[cut] + rest.text == whole.text
        assert (rest.reason, rest.stop) == (whole.reason, whole.stop)
        assert generation.end.completion_tokens == len(whole.token_ids)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("model", MODELS)
async def test_an_answer_cut_after_any_token_has_the_same_rest(model: str, setting: str):
    wanted = request(PROMPT, **SETTINGS[setting], seed=11, max_tokens=NEW_TOKENS)
    whole, texts = await whole_answer(model, wanted)
    await assert_goes_on_from_every_cut(Stepper(model, prefill_chunk=16), wanted, whole, texts)


@pytest.mark.parametrize("model", MODELS)
async def test_a_cut_inside_of_a_stop_string_changes_nothing(model: str):
    plain = request(PROMPT, temperature=1.0, seed=5, max_tokens=NEW_TOKENS)
    unstopped, texts = await whole_answer(model, plain)
    stop = _stop_over_tokens(texts)
    wanted = request(PROMPT, temperature=1.0, seed=5, max_tokens=NEW_TOKENS, strings=(stop,))
    whole, texts = await whole_answer(model, wanted)
    assert whole.text == unstopped.text[: unstopped.text.index(stop)]
    await assert_goes_on_from_every_cut(Stepper(model), wanted, whole, texts)


async def test_predictions_on_the_second_server_change_nothing():
    wanted = request(PROMPT, temperature=0.9, seed=8, max_tokens=NEW_TOKENS, num_predictions=6)
    whole, texts = await whole_answer("llama", wanted)
    mixed = ScriptedPredictor(lambda name: ("mixed", whole.token_ids), vocab_size=512)
    await assert_goes_on_from_every_cut(Stepper("llama", predictors=[mixed]), wanted, whole, texts)


async def test_nothing_is_sent_twice_when_all_tokens_had_arrived():
    wanted = request(PROMPT, max_tokens=NEW_TOKENS)
    stepper = Stepper("llama")
    whole = await stepper.complete(wanted)
    generation = stepper.submit(replace(wanted, received=whole.token_ids))
    assert not any(isinstance(event, Chunk) for event in await generation.read())


async def test_tokens_beyond_the_end_are_refused():
    wanted = request(PROMPT, max_tokens=NEW_TOKENS)
    stepper = Stepper("llama")
    whole = await stepper.complete(wanted)
    with pytest.raises(ValueError, match="ends after 40 tokens, but 41 were received"):
        stepper.submit(replace(wanted, received=(*whole.token_ids, 7)))


def test_another_fingerprint_is_refused_and_never_spliced():
    with target_server(folder("llama")) as target:
        first = list(target.stub.StreamGenerate(_message(), timeout=PATIENCE_SECONDS))
        token_ids = _token_ids(first)
        again = _message()
        again.continue_from.token_ids.extend(token_ids[:3])
        again.continue_from.fingerprint = "0" * len(first[0].started.fingerprint)
        with pytest.raises(grpc.RpcError) as refusal:
            list(target.stub.StreamGenerate(again, timeout=PATIENCE_SECONDS))
        assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        again.continue_from.fingerprint = first[0].started.fingerprint
        rest = list(target.stub.StreamGenerate(again, timeout=PATIENCE_SECONDS))
        assert _token_ids(rest) == token_ids[3:]


def _message() -> generation_pb2.StreamGenerateRequest:
    message = generation_pb2.StreamGenerateRequest()
    message.prompt.token_ids.ids.extend(PROMPT)
    message.sampling.seed = 4
    message.stop.max_tokens = 12
    message.stop.ignore_eos = True
    return message


def _token_ids(events: list[generation_pb2.StreamGenerateResponse]) -> list[int]:
    return [token_id for event in events for token_id in event.chunk.token_ids]


def _stop_over_tokens(texts: dict[int, str]) -> str:
    """Four characters beyond the middle of the text that come out of more than one token."""
    for count in range(NEW_TOKENS // 2, NEW_TOKENS - 4):
        start = len(texts[count]) - 2
        stop = texts[count + 3][start : start + 4]
        if len(stop) == 4 and "\ufffd" not in stop and texts[count].find(stop) < 0:
            return stop
    raise AssertionError("no such characters: choose another seed")
