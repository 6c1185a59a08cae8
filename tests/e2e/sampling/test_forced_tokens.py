"""Tokens that a checkpoint forces stand in their places, with any predictions, company and cuts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from outrider import FinishReason
from services.engine.forced_tokens import ForcedIds
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from tests.e2e.harness.models import folder
from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.cells import SCRIPTED
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of
from tests.harness.grammar.grammars import compiler
from tests.harness.models.checkpoints import VOCAB_SIZE

TOKENIZER = Tokenizer.from_model(folder("llama"))
NEW_TOKENS, SECOND, END, OTHER_END = 20, 77, 1, 300
SETTINGS: dict[str, Mapping[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 1.2, "top_p": 0.9},
    "banned": {"temperature": 1.0, "banned_strings": ("e", "a", "o")},
}


def wanted(setting: str, prompt_length: int = 1, **fields: Any) -> Request:
    forced = ForcedIds(second=(SECOND,), last=(END, OTHER_END)).in_answer(
        num_prompt=prompt_length, min_tokens=0, max_tokens=NEW_TOKENS, vocab_size=VOCAB_SIZE
    )
    options = {"seed": 11, "max_tokens": NEW_TOKENS, "forced": forced, **SETTINGS[setting], **fields}
    return request(prompt_of("llama", 4)[:prompt_length], request_id=setting, prompt_logprobs=False, **options)


@pytest.mark.parametrize("kind", SCRIPTED)
@pytest.mark.parametrize("setting", SETTINGS)
async def test_predictions_preemption_and_cuts_change_nothing(setting: str, kind: str) -> None:
    whole = await Stepper("llama").complete(wanted(setting))
    assert whole.token_ids[0] == SECOND
    assert whole.token_ids[-1] in {END, OTHER_END}
    assert len(whole.token_ids) == NEW_TOKENS
    scripted = ScriptedPredictor(lambda name: (kind, whole.token_ids), vocab_size=VOCAB_SIZE)
    stepper = Stepper("llama", predictors=[scripted], num_blocks=9, prefill_chunk=16)
    company = stepper.submit(request(prompt_of("llama", 7), seed=1, temperature=1.0, max_tokens=60))
    generation = stepper.submit(wanted(setting, num_predictions=5))
    stepper.run()
    assert await generation.transcript() == whole
    await company.read()
    stats = generation.end.speculation
    assert sum(stats.accepted) > 0 or kind == "wrong"
    assert sum(stats.accepted) < sum(stats.offered) or kind == "right"
    for cut in (1, NEW_TOKENS - 2, NEW_TOKENS - 1):
        received = tuple(whole.token_ids[:cut])
        rest = Stepper("llama").complete(replace(wanted(setting), received=received))
        assert [*received, *(await rest).token_ids] == [*whole.token_ids]


async def test_only_the_last_token_is_forced_after_a_longer_prompt() -> None:
    plain = await Stepper("llama").complete(wanted("greedy", 9, forced=None))
    forced = await Stepper("llama").complete(wanted("greedy", 9))
    assert plain.token_ids[:-1] == forced.token_ids[:-1]
    assert (plain.token_ids[-1] in {END, OTHER_END}, forced.token_ids[-1] in {END, OTHER_END}) == (False, True)


async def test_a_forced_end_ends_the_answer() -> None:
    whole = await Stepper("llama").complete(wanted("greedy", 9, token_ids=frozenset({END, OTHER_END})))
    assert (len(whole.token_ids), whole.reason) == (NEW_TOKENS, str(FinishReason.STOP_TOKEN))


async def test_a_grammar_without_an_end_overrides_a_forced_end() -> None:
    source = GrammarSource(GrammarKind.REGEX, ("[a-z]{200}",))
    grammar = compiler(TOKENIZER, VOCAB_SIZE).compile(source)
    whole = await Stepper("llama").complete(wanted("sampled", 9, grammar=grammar))
    assert whole.reason == str(FinishReason.MAX_TOKENS)
    assert TOKENIZER.token_bytes(whole.token_ids[-1]).isalpha()
