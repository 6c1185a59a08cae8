"""The models that come with Outrider: small, with texts that end and do not loop, a draft and a head worth asking."""

import asyncio

import pytest
from demo_loops import loops

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from tests.e2e.acceptance.acceptance import (
    LEAST_ACCEPTANCE,
    LEAST_OF_HEAD,
    NEW_TOKENS,
    OfflineDraft,
    heldout_prompts,
)
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_HEAD, DEMO_TARGET
from tests.e2e.harness.stepper import Stepper, request

MOST_BYTES, MOST_OF_HEAD = 32 * 10**6, 8 * 10**6
LEAST_STRAIGHT, LEAST_ENDED = 0.8, 0.6  # of the texts
END = 0


def test_all_models_together_stay_small():
    for folder, most in ((DEMO_TARGET.parent, MOST_BYTES), (DEMO_HEAD, MOST_OF_HEAD)):
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert most / 2 < sum(path.stat().st_size for path in files) <= most


def test_target_and_draft_share_one_vocabulary():
    target, draft = Tokenizer.from_folder(DEMO_TARGET), Tokenizer.from_folder(DEMO_DRAFT)
    assert target.fingerprint() == draft.fingerprint()
    assert load_checkpoint(DEMO_TARGET).config.vocab_size == load_checkpoint(DEMO_DRAFT).config.vocab_size


@pytest.fixture(scope="module")
def answers() -> list[tuple[Request, list[int]]]:
    """Greedy answers to every fourth beginning of a held-out document."""

    async def generate() -> list[tuple[Request, list[int]]]:
        stepper = Stepper("demo", num_blocks=256)
        options = {"temperature": 0.0, "max_tokens": NEW_TOKENS, "token_ids": frozenset({END})}
        asked = [request(prompt, **options) for prompt in heldout_prompts()[::4]]
        generations = [stepper.submit(one) for one in asked]
        stepper.run()
        return [(one, [*(await each.transcript()).token_ids]) for one, each in zip(asked, generations, strict=True)]

    return asyncio.run(generate())


def test_the_draft_predicts_most_of_the_targets_tokens(answers: list[tuple[Request, list[int]]]):
    draft = OfflineDraft()
    agreed = [right for asked, text in answers for right in draft.agreement(asked.prompt, text, asked.sampling)]
    assert len(agreed) > len(answers) * NEW_TOKENS // 2
    assert sum(agreed) / len(agreed) >= LEAST_ACCEPTANCE


@pytest.mark.parametrize("temperature", LEAST_OF_HEAD)
async def test_the_head_makes_each_pass_worth_more(temperature: float):
    least_first, least_per_pass = LEAST_OF_HEAD[temperature]
    stepper = Stepper("demo", drafter=DEMO_HEAD, num_blocks=256)
    ends = frozenset({END})
    options = {"temperature": temperature, "max_tokens": NEW_TOKENS, "token_ids": ends, "num_predictions": 3}
    generations = [stepper.submit(request(prompt, **options)) for prompt in heldout_prompts()[::4]]
    stepper.run()
    num_tokens = sum([len((await each.transcript()).token_ids) for each in generations])
    stats = [each.end.speculation for each in generations]
    assert sum(each.accepted[0] for each in stats) >= least_first * sum(each.offered[0] for each in stats)
    assert num_tokens >= least_per_pass * sum(each.passes for each in stats)


def test_greedy_texts_come_to_an_end_and_do_not_loop(answers: list[tuple[Request, list[int]]]):
    texts = [text for _, text in answers]
    assert sum(not loops(text) for text in texts) >= LEAST_STRAIGHT * len(texts)
    assert sum(text[-1] == END for text in texts) >= LEAST_ENDED * len(texts)


async def test_the_target_writes_a_function_with_its_documentation():
    stepper = Stepper("demo")
    prompt = stepper.tokenizer.encode("def is_even(number: int) -> bool:\n")
    answer = await stepper.complete(request(prompt, temperature=0.0, max_tokens=NEW_TOKENS))
    assert all(part in answer.text for part in ('    """', "\n    return "))
