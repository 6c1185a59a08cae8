"""Records of a prompt: right, with the same bits however the prompt is computed, and sent once."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

from services.engine.events import Chunk, Progress, TokenRecord
from services.engine.request import CachePolicy
from services.engine.text.healing import plan_healing
from services.engine.text.tokenizer import Tokenizer
from tests.e2e.harness.models import folder
from tests.e2e.harness.stepper import Generation, Stepper, request
from tests.e2e.matrix.streams import prompt_of
from tests.harness.models.checkpoints import VOCAB_SIZE, byte_level_tokenizer

MODELS = ("llama", "qwen3", "gemma2", "qwen3_5")
PROMPT = prompt_of("llama", 7)
TOLERANCE = 2e-4  # of two implementations in float32
TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())


def told(generation: Generation) -> list[TokenRecord]:
    """The records of the prompt; all came before the first token."""
    kinds = [type(event) for event in generation.events]
    assert Progress not in kinds[kinds.index(Chunk) :]
    return [record for event in generation.events if isinstance(event, Progress) for record in event.records]


def transformers_logprobs(model: str) -> torch.Tensor:
    """Of every token after every position of the prompt.  # [prompt, vocab]"""
    decoder = transformers.AutoModelForCausalLM.from_pretrained(folder(model), dtype=torch.float32)
    with torch.inference_mode():
        return decoder(torch.tensor([PROMPT])).logits[0].double().log_softmax(dim=-1)


@pytest.mark.parametrize("model", MODELS)
async def test_prompt_records_are_those_of_transformers(model: str):
    stepper = Stepper(model, weights="f32", kv="f32", prefill_chunk=13)
    generation = stepper.submit(request(PROMPT, max_tokens=1))
    stepper.run()
    await generation.read()
    first, *records = told(generation)
    assert first == TokenRecord(PROMPT[0])
    assert [record.token_id for record in records] == PROMPT[1:]
    for record, logprobs in zip(records, transformers_logprobs(model), strict=False):
        logprob = float(logprobs[record.token_id])
        assert record.raw_logprob == pytest.approx(logprob, abs=TOLERANCE)
        assert (logprobs > logprob + TOLERANCE).sum() < record.rank <= (logprobs >= logprob - TOLERANCE).sum()
        assert record.entropy == pytest.approx(float(-(logprobs.exp() * logprobs).sum()), abs=10 * TOLERANCE)
        best = logprobs.topk(len(record.candidates)).values.tolist()
        assert [candidate.raw_logprob for candidate in record.candidates] == pytest.approx(best, abs=TOLERANCE)


@pytest.mark.parametrize("model", MODELS)
async def test_records_of_an_answer_as_a_prompt_are_those_it_was_drawn(model: str):
    """To the bit, and with the answer's logits one can check the rest."""
    stepper = Stepper(model, prefill_chunk=16)
    answer = stepper.submit(request(PROMPT, temperature=1.0, seed=3, repetition_penalty=1.2, top_p=0.95))
    stepper.run()
    drawn = [record for event in await answer.read() if isinstance(event, Chunk) for record in event.records]
    again = stepper.submit(request([*PROMPT, *(record.token_id for record in drawn)], max_tokens=1))
    stepper.run()
    await again.read()
    prompt = told(again)
    assert told(answer) == prompt[: len(PROMPT)]
    for before, after in zip(drawn, prompt[len(PROMPT) :], strict=True):
        figures = (before.token_id, before.raw_logprob, before.rank, before.entropy)
        assert (after.token_id, after.raw_logprob, after.rank, after.entropy) == figures
        logits = np.frombuffer(before.logits, "<f4").astype(np.float64)
        logprobs = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        assert before.raw_logprob == pytest.approx(logprobs[before.token_id], abs=1e-5)
        order = np.lexsort((np.arange(VOCAB_SIZE), -logits)).tolist()
        assert before.rank == order.index(before.token_id) + 1
        assert [candidate.token_id for candidate in after.candidates] == order[: len(after.candidates)]


@pytest.mark.parametrize("model", MODELS)
async def test_prompt_records_do_not_depend_on_chunks_or_other_streams(model: str, monkeypatch: pytest.MonkeyPatch):
    wanted = request(PROMPT, temperature=0.9, max_tokens=5)
    whole = await Stepper(model).complete(wanted)
    assert len(whole.prompt) == len(PROMPT)
    for chunk in (1, 7, 16, 89):
        assert await Stepper(model, prefill_chunk=chunk).complete(wanted) == whole
    monkeypatch.setattr("services.target.scheduling.scheduler._MAX_PROMPT_LOGITS", 10)
    stepper = Stepper(model)
    crowd = [stepper.submit(wanted) for _ in range(3)]
    stepper.run()
    assert [await generation.transcript() for generation in crowd] == [whole] * 3


async def test_a_prompt_preempted_amid_prefill_reports_records_once():
    alone_in_cache = CachePolicy(prefix=False)
    wanted = [request(prompt_of("llama", 7), seed=seed, max_tokens=40, cache=alone_in_cache) for seed in range(3)]
    alone = [await Stepper("llama").complete(one) for one in wanted]
    stepper = Stepper("llama", num_blocks=12, prefill_chunk=5)
    crowd = [stepper.submit(one) for one in wanted]
    stepper.run()
    assert [await generation.transcript() for generation in crowd] == alone
    assert stepper.scheduler.num_preemptions > 0


async def test_asking_for_prompt_records_changes_nothing_else():
    asked, plain = (request(PROMPT, temperature=0.9, prompt_logprobs=is_asked) for is_asked in (True, False))
    with_records, without = [await Stepper("llama").complete(one) for one in (asked, plain)]
    assert without.prompt == ()
    assert (with_records.token_ids, with_records.records) == (without.token_ids, without.records)


async def test_a_continuation_does_not_report_the_prompt_again():
    wanted = request(PROMPT, max_tokens=8)
    stepper = Stepper("llama")
    whole = await stepper.complete(wanted)
    rest = await stepper.complete(replace(wanted, received=whole.token_ids[:3]))
    assert (rest.prompt, rest.records) == ((), whole.records[3:])


async def test_a_single_token_prompt_has_one_record_without_figures():
    stepper = Stepper("llama")
    generation = stepper.submit(request([9], max_tokens=2))
    stepper.run()
    await generation.read()
    assert told(generation) == [TokenRecord(9)]


async def test_the_last_record_of_a_healed_prompt_is_the_healed_draw():
    prompt = (*PROMPT, *TOKENIZER.encode(" ", add_special_tokens=False))
    healing = plan_healing(prompt, TOKENIZER, vocab_size=VOCAB_SIZE)
    stepper = Stepper("llama", prefill_chunk=16)
    healed = stepper.submit(request(prompt, temperature=1.0, seed=11, max_tokens=3, healing=healing))
    plain = stepper.submit(request(PROMPT, max_tokens=3))
    stepper.run()
    await healed.read()
    await plain.read()
    *known, last = told(healed)
    assert known == told(plain)
    assert healed.sequence.tokens[len(PROMPT)] == last.token_id
    assert last.logprob > last.raw_logprob > -math.inf
    assert not {candidate.token_id for candidate in last.candidates} & {*healing.masked_ids}
    assert last.logits is None
