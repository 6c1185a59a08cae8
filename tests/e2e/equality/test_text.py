"""The text that a user reads: whole characters, up to the stop and never beyond, exactly as long as asked for."""

import codecs
from dataclasses import replace
from math import ceil

import pytest

from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.cells import SCRIPTED
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of
from tests.harness.further import all_with

MODELS = ("llama", "qwen3", "gemma2")
PROMPT = prompt_of("llama", 3)
RANDOM_TEXT = {"temperature": 1.0, "seed": 3, "max_tokens": 60}
PREDICTIONS = ("none", *SCRIPTED)


def predicting(model: str, kind: str, script: tuple[int, ...]) -> Stepper:
    """A stepper whose predictor has the model's answer, or a wrong one."""
    predictor = ScriptedPredictor(lambda name: None if kind == "none" else (kind, script), vocab_size=512)
    return Stepper(model, predictors=[predictor])


def byte_tokens(stepper: Stepper, character: str) -> list[int]:
    """The ids that stand for the single bytes of a character."""
    single = {stepper.tokenizer.token_bytes(token_id): token_id for token_id in range(stepper.tokenizer.vocab_size)}
    return [single[bytes([byte])] for byte in character.encode()]


def text_after(stepper: Stepper, token_ids: tuple[int, ...]) -> str:
    """What may be shown of an answer without stop strings that continues after these tokens."""
    visible = (token_id for token_id in token_ids if not stepper.tokenizer.is_special(token_id))
    data = b"".join(map(stepper.tokenizer.token_bytes, visible))
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


@pytest.mark.parametrize("character", ["é", "日", "🙂"])
async def test_text_is_never_a_broken_character(character: str):
    stepper = Stepper("llama")
    bytes_of_character = byte_tokens(stepper, character)
    bias = dict.fromkeys(bytes_of_character, 60.0)
    texts = []
    for seed in range(12):
        wanted = request(PROMPT, seed=seed, temperature=2.0, max_tokens=128, logit_bias=bias)
        transcript, generation = await stepper.one_by_one(wanted)
        assert set(transcript.token_ids) <= set(bytes_of_character)
        for num_tokens, text in generation.boundaries().items():
            if num_tokens < len(transcript.token_ids):
                assert text == text_after(stepper, transcript.token_ids[:num_tokens])
        texts.append(transcript.text)
        data = b"".join(map(stepper.tokenizer.token_bytes, transcript.token_ids))
        assert transcript.text == data.decode("utf-8", "replace")
    assert any(character in text for text in texts)
    assert any("\ufffd" in text for text in texts)


@pytest.mark.parametrize("model", MODELS)
async def test_the_text_after_some_tokens_depends_on_them_alone(model: str):
    wanted = request(PROMPT, **RANDOM_TEXT, num_predictions=7)
    alone, generation = await Stepper(model).one_by_one(wanted)
    texts = generation.boundaries()
    assert len(texts) == len(alone.token_ids) + 1
    for kind in SCRIPTED:
        transcript, generation = await predicting(model, kind, alone.token_ids).one_by_one(wanted)
        assert transcript == alone
        assert generation.boundaries().items() <= texts.items()


@pytest.mark.parametrize("kind", all_with(PREDICTIONS, "mixed"))
@pytest.mark.parametrize("model", MODELS)
async def test_a_stop_string_never_leaks_wherever_it_begins(model: str, kind: str):
    whole = await Stepper(model).complete(request(PROMPT, **RANDOM_TEXT))
    stepper = predicting(model, kind, whole.token_ids)
    num_spanning = 0
    for start in range(5, len(whole.text) - 6, 3):
        stop = whole.text[start : start + 1 + start % 6]
        if "\ufffd" in stop:
            continue
        wanted = request(PROMPT, **RANDOM_TEXT, strings=(stop, "\0 never"), num_predictions=8)
        stopped, generation = await stepper.one_by_one(wanted)
        assert stopped.text == whole.text[: whole.text.index(stop)]
        assert (stopped.reason, stopped.stop) == ("stop_string", stop)
        assert stopped.token_ids == whole.token_ids[: len(stopped.token_ids)]
        assert stopped.records == whole.records[: len(stopped.token_ids)]
        assert all(stopped.text.startswith(text) for text in generation.boundaries().values())
        num_spanning += stop not in stepper.tokenizer.token_text(stopped.token_ids[-1])
    assert num_spanning > 0


@pytest.mark.parametrize("kind", PREDICTIONS)
@pytest.mark.parametrize("num_predictions", all_with([1, 3, 8], 3))
async def test_max_tokens_is_exact(kind: str, num_predictions: int):
    whole = await Stepper("qwen3").complete(request(PROMPT, **RANDOM_TEXT))
    stepper = predicting("qwen3", kind, whole.token_ids)
    for max_tokens in (*range(1, 20), 33, 59):
        limits = {**RANDOM_TEXT, "max_tokens": max_tokens}
        generation = stepper.submit(request(PROMPT, **limits, num_predictions=num_predictions))
        stepper.run()
        transcript = await generation.transcript()
        assert transcript.token_ids == whole.token_ids[:max_tokens]
        assert transcript.records == whole.records[:max_tokens]
        assert transcript.reason == "max_tokens"
        assert generation.end.completion_tokens == max_tokens
        visible = [i for i in transcript.token_ids if not stepper.tokenizer.is_special(i)]
        assert transcript.text == b"".join(map(stepper.tokenizer.token_bytes, visible)).decode("utf-8", "replace")
        assert stepper.blocks.num_free == stepper.blocks.num_blocks


@pytest.mark.parametrize("ending", ["stop token", "stop string", "max_tokens"])
async def test_an_answer_ends_at_the_same_token_in_any_accepted_run(ending: str):
    whole = await Stepper("gemma2").complete(request(PROMPT, **RANDOM_TEXT))
    alone, foretold = Stepper("gemma2"), predicting("gemma2", "right", whole.token_ids)
    for position in range(1, 30):
        limits = {"max_tokens": position} if ending == "max_tokens" else {}
        if ending == "stop token":
            limits["token_ids"] = frozenset({whole.token_ids[position]})
        elif ending == "stop string":
            limits["strings"] = (alone.tokenizer.token_text(whole.token_ids[position]) or "?",)
        wanted = request(PROMPT, **{**RANDOM_TEXT, **limits}, num_predictions=8)
        expected = await alone.complete(wanted)
        generation = foretold.submit(wanted)
        foretold.run()
        assert await generation.transcript() == expected
        assert generation.end.speculation.passes == 1 + ceil((len(expected.token_ids) - 1) / 9)
        assert foretold.blocks.num_free == foretold.blocks.num_blocks


async def test_no_stop_ends_an_answer_before_min_tokens():
    stepper = Stepper("llama")
    whole = await stepper.complete(request(PROMPT, **RANDOM_TEXT))
    early = stepper.tokenizer.token_text(whole.token_ids[4])
    stopped = await stepper.complete(request(PROMPT, **RANDOM_TEXT, strings=(early,)))
    assert len(stopped.token_ids) <= 5
    held_off = await stepper.complete(request(PROMPT, **RANDOM_TEXT, strings=(early,), min_tokens=20))
    assert held_off.token_ids[:20] == whole.token_ids[:20]
    assert len(held_off.token_ids) > 20
    assert early in held_off.text


async def test_a_stop_token_is_not_even_drawn_before_min_tokens():
    stepper = Stepper("llama")
    whole = await stepper.complete(request(PROMPT, **RANDOM_TEXT))
    stop = frozenset({whole.token_ids[3]})
    wanted = request(PROMPT, **RANDOM_TEXT, token_ids=stop, min_tokens=20)
    alone = await stepper.complete(wanted)
    assert not stop & set(alone.token_ids[:20])
    assert len(alone.token_ids) >= 20
    foretold = predicting("llama", "mixed", alone.token_ids)
    assert await foretold.complete(replace(wanted, speculation=request(PROMPT, num_predictions=8).speculation)) == alone
