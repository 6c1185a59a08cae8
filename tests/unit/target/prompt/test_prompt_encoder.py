"""Prompts get the ids that the library gives them, wherever they are encoded, and an abandoned one delays no other."""

import asyncio
import threading
from dataclasses import replace

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from services.engine.text.tokenizer import Tokenizer
from services.target.prompt import prompt_encoder
from services.target.prompt.chat_template import ChatTemplate, ChatTemplateError
from services.target.prompt.prompt_encoder import (
    Conversation,
    PromptEncoder,
    PromptError,
    PromptText,
    TooManyTokensError,
)
from tests.harness.models.checkpoints import CHAT_TEMPLATE, SPECIAL_TOKENS, byte_level_tokenizer
from tests.harness.processes.cpu_time import cpu_seconds
from tests.unit.engine.text.test_tokenizer import GEMMA_DECODER, sentencepiece_like

pytestmark = pytest.mark.process

BYTE_LEVEL = Tokenizer(byte_level_tokenizer().to_str())
SENTENCEPIECE = sentencepiece_like(GEMMA_DECODER)
NAMES = {"bos_token": SPECIAL_TOKENS[0], "eos_token": SPECIAL_TOKENS[1]}
NO_TEMPLATE = ChatTemplate(None, {})
HELLO = Conversation([{"role": "user", "content": "hello"}])
MOST = 1 << 20
HOSTILE = {
    "one letter": "a" * 100_000,
    "spaces": " " * 100_000,
    "emoji": "😀" * 25_000,
    "special tokens": SPECIAL_TOKENS[1] * 14_000,
    "combining": "e\u0301" * 35_000,
    "no characters": "\0" * 100_000,
}

texts = st.text(st.sampled_from("ab x▁é漢😀\n\0e\u0301<|end|>")) | st.text() | st.sampled_from([*SPECIAL_TOKENS])


def library(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(tokenizer.description)


@pytest.mark.parametrize("tokenizer", [BYTE_LEVEL, SENTENCEPIECE], ids=["byte level", "sentencepiece"])
@given(text=st.lists(texts).map("".join), add_special=st.booleans())
def test_ids_are_those_of_the_librarys_encode(tokenizer: Tokenizer, text: str, add_special: bool) -> None:
    expected = library(tokenizer).encode(text, add_special_tokens=add_special).ids
    assert tokenizer.encode(text, add_special_tokens=add_special) == expected


def test_the_worker_gives_the_same_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_encoder, "_SMALL_BYTES", -1)
    encoder = PromptEncoder(SENTENCEPIECE, NO_TEMPLATE)

    @given(text=st.lists(texts).map("".join), add_special=st.booleans())
    def check(text: str, add_special: bool) -> None:
        expected = library(SENTENCEPIECE).encode(text, add_special_tokens=add_special).ids
        assert [*runner.run(encoder.encode(PromptText(text, add_special), most=MOST))] == expected

    with asyncio.Runner() as runner:
        check()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_texts_are_encoded_beside_other_threads(text: str) -> None:
    encoder = PromptEncoder(BYTE_LEVEL, NO_TEMPLATE)
    assert [*await encoder.encode(PromptText(text, True), most=MOST)] == library(BYTE_LEVEL).encode(text).ids


def test_encoding_gives_the_gil_away() -> None:
    """Another thread runs meanwhile: always, where the machine has a core for it, and else in one of many tries."""
    text = " the quick brown fox" * 30_000
    alone = threading.Event()
    num_ticks = 0

    def tick() -> None:
        nonlocal num_ticks
        while not alone.wait(0.002):
            num_ticks += 1

    ticking = threading.Thread(target=tick)
    ticking.start()
    most = 0
    for _ in range(20):
        before = num_ticks
        BYTE_LEVEL.encode(text)
        most = max(most, num_ticks - before)
        if most > 3:  # one or two come as the call begins and ends
            break
    alone.set()
    ticking.join()
    assert most > 3, f"{most} ticks of 2 ms"


async def test_a_conversation_is_rendered_first() -> None:
    encoder = PromptEncoder(BYTE_LEVEL, ChatTemplate(CHAT_TEMPLATE, NAMES))
    expected = BYTE_LEVEL.encode("<|begin|><|user|>hello<|end|><|assistant|>", add_special_tokens=False)
    assert [*await encoder.encode(HELLO, most=MOST)] == expected
    with pytest.raises(TooManyTokensError, match=f"is {len(expected)} tokens long"):
        await encoder.encode(HELLO, most=len(expected) - 1)
    with pytest.raises(ChatTemplateError, match="the first message cannot be the assistant's"):
        await encoder.encode(Conversation([{"role": "assistant", "content": "a"}]), most=MOST)


async def test_a_text_that_encodes_too_slowly_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_encoder, "_LIMITS", replace(prompt_encoder._LIMITS, cpu_seconds=0.3))
    encoder = PromptEncoder(BYTE_LEVEL, NO_TEMPLATE)
    with pytest.raises(PromptError, match=r"cannot be encoded: it takes more than 0\.3 s"):
        await encoder.encode(PromptText("e\u0301" * 1_300_000, False), most=MOST)
    monkeypatch.setattr(prompt_encoder, "_SMALL_BYTES", 0)
    assert len(await encoder.encode(PromptText("a", False), most=MOST)) == 1


async def test_a_cancelled_encoding_is_ended_and_the_next_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_encoder, "_SMALL_BYTES", 0)
    monkeypatch.setattr(prompt_encoder, "_GRACE_SECONDS", 0.0)
    encoder = PromptEncoder(BYTE_LEVEL, NO_TEMPLATE)
    await encoder.encode(PromptText("a", False), most=MOST)  # so that the worker has started
    assert encoder._worker._process is not None
    first = encoder._worker._process._child
    began = cpu_seconds(first.pid)
    encoding = asyncio.create_task(encoder.encode(PromptText("e\u0301" * 1_300_000, False), most=MOST))
    waiting = [asyncio.create_task(encoder.encode(PromptText("b", False), most=MOST)) for _ in range(2)]
    while cpu_seconds(first.pid) < began + 0.05:  # it is at work then, and has seconds of it left
        await asyncio.sleep(0.01)
    encoding.cancel()
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await encoding
    assert len(await waiting[1]) == 1
    assert first.poll() is not None
