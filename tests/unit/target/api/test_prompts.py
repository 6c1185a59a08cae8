"""Prompts whose tokenizer knows more tokens than the model are refused before they reach the engine."""

from dataclasses import replace

import pytest

from outrider.v1 import common_pb2
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.grammar.process import GrammarProcess
from services.engine.text.token_search import TokenSearch
from services.engine.text.tokenizer import Tokenizer
from services.service.errors import InvalidRequestError
from services.service.validation import Violations
from services.target.api.prompts import read_prompt
from services.target.generation.fingerprint import Fingerprint
from services.target.message.syntax import MessageSyntax
from services.target.models.served_model import ServedModel
from services.target.prompt.chat_template import ChatTemplate
from services.target.prompt.prompt_encoder import PromptEncoder
from tests.harness.models.checkpoints import Kind, random_checkpoint

pytestmark = pytest.mark.process

FINGERPRINT = Fingerprint(
    version="1",
    build="b",
    device="cpu",
    weights_hash="w",
    tokenizer="t",
    libraries="l",
    weight_format="bf16",
    kv_type="bf16",
    noise_version=1,
    recommended="",
    context_length=64,
)


def served_model(*, vocab_size: int) -> ServedModel:
    checkpoint = load_checkpoint(random_checkpoint(Kind.LLAMA))
    tokenizer = Tokenizer.from_folder(checkpoint.path)
    chat_template = ChatTemplate.from_folder(checkpoint.path)
    return ServedModel(
        name="small",
        config=replace(checkpoint.config, vocab_size=vocab_size),
        context_length=64,
        eos_token_ids=checkpoint.eos_token_ids,
        defaults=checkpoint.generation,
        token_rules=checkpoint.token_rules,
        forced_ids=checkpoint.forced_ids,
        tokenizer=tokenizer,
        token_search=TokenSearch(tokenizer),
        prompts=PromptEncoder(tokenizer, chat_template),
        grammars=GrammarProcess(tokenizer, vocab_size=vocab_size),
        chat_template=chat_template,
        syntax=MessageSyntax(None, None, {}, frozenset()),
        fingerprint=FINGERPRINT,
        max_samples=16,
        guides=True,
    )


async def test_text_beyond_the_models_vocabulary_is_refused_by_name():
    found = Violations()
    await read_prompt(common_pb2.Prompt(text="zebra"), served_model(vocab_size=50), found)
    with pytest.raises(InvalidRequestError) as refused:
        found.raise_if_any()
    (violation,) = refused.value.violations
    assert violation.field == "prompt.text"
    assert "all below 50" in violation.description


async def test_text_of_tokens_that_the_model_has_is_taken():
    found = Violations()
    ids = await read_prompt(common_pb2.Prompt(text="zebra"), served_model(vocab_size=512), found)
    assert ids
    found.raise_if_any()
