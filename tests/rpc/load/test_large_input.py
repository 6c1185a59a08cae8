"""Texts and ids of megabytes, many at once: those too large are refused by name, and delay no other request."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import generation_pb2
from tests.harness.models.checkpoints import CONTEXT_LENGTH, byte_level_tokenizer, edit_json
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.loop_turns import LoopTurns, computed
from tests.rpc.harness.requests import stream_request, violations

DEMO = Path("models/demo/target")
DEMO_CONTEXT, DEMO_LONGEST = 2048, 69
LONG_CONTEXT = 1 << 17
TEXT = Path("models/demo/heldout.txt").read_text()
MEGABYTE = (TEXT * (1 + (1 << 20) // len(TEXT.encode())))[: 1 << 20]
PAGES = MEGABYTE[: 1 << 16]
NUM_AT_ONCE = 4
ENDLESS = {"max_tokens": 150, "ignore_eos": True}


@pytest.fixture(scope="module")
def demo() -> Iterator[RunningTarget]:
    with target_server(DEMO) as running:
        yield running


@pytest.fixture(scope="module")
def patient(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTarget]:
    """A server whose context is so long that megabytes of text might fit."""
    folder = shutil.copytree(model, tmp_path_factory.mktemp("long") / "model")
    edit_json(folder / "config.json", max_position_embeddings=LONG_CONTEXT)
    with target_server(folder, max_sequences=2, kv_blocks=LONG_CONTEXT // 32) as running:
        yield running


def begin(running: RunningTarget, method: str, message: bytes) -> Any:
    """Begin a unary call with bytes that are there already."""
    call: Any = running.channel.unary_unary(f"/outrider.v1.GenerationService/{method}")
    return call.future(message, timeout=120)


def streamed(running: RunningTarget, *, beside: Callable[[], None] = lambda: None) -> list[int]:
    """The tokens of a stream, with something done while it goes on."""
    stream = running.stub.StreamGenerate(stream_request(stop=ENDLESS), timeout=120)
    token_ids = [*next(stream).chunk.token_ids]
    beside()
    return token_ids + [token_id for event in stream for token_id in event.chunk.token_ids]


def answers_beside(
    running: RunningTarget, calls: list[tuple[str, bytes]], *, walk: Callable[[], object]
) -> list[grpc.RpcError | bytes]:
    """The answers to the calls, while health answers and a stream continues with the bytes that it has alone.

    No turn of the event loop, on which all of them come and go, computes as long as a walk through a part of what one
    call sends.
    """
    answers: list[grpc.RpcError | bytes] = []

    def ask() -> None:
        begun = [begin(running, method, message) for method, message in calls]
        assert running.health() == "SERVING"
        answers.extend(call.exception() or call.result() for call in begun)

    alone = streamed(running)
    with LoopTurns(running) as turns:
        assert streamed(running, beside=ask) == alone
    assert len(turns.seconds) > len(calls)
    assert max(turns.seconds) < computed(walk)
    return answers


@pytest.mark.parametrize("megabytes", [pytest.param(1, marks=pytest.mark.exhaustive), 3.9])
def test_texts_that_no_context_holds_are_refused_at_once_by_name(demo: RunningTarget, megabytes: float) -> None:
    text = (MEGABYTE * 4)[: int(megabytes * (1 << 20))]
    size, most = len(text.encode()), DEMO_CONTEXT * DEMO_LONGEST

    generate = generation_pb2.GenerateRequest(prompt={"text": text}).SerializeToString()
    tokenize = generation_pb2.TokenizeRequest(text=text).SerializeToString()
    calls = [("Generate", generate), ("Tokenize", tokenize)] * (NUM_AT_ONCE // 2)
    answers = answers_beside(demo, calls, walk=lambda: byte_level_tokenizer().encode(PAGES))
    for index, answer in enumerate(answers):
        assert isinstance(answer, grpc.RpcError)
        ((at, said),) = violations(answer).items()
        assert at == ("text" if index % 2 else "prompt.text")
        assert said.startswith(f"has {size} bytes; allowed: at most {most} bytes")


def test_ids_that_no_context_holds_are_refused_at_once_by_name(demo: RunningTarget) -> None:
    ids = [5] * 4_000_000

    generate = generation_pb2.GenerateRequest(prompt={"token_ids": {"ids": ids}}).SerializeToString()
    message = generation_pb2.DetokenizeRequest(token_ids=ids)
    calls = [("Generate", generate), ("Detokenize", message.SerializeToString())] * (NUM_AT_ONCE // 2)
    said = {
        "prompt.token_ids.ids": f"is {len(ids)} tokens long; allowed: at most {DEMO_CONTEXT - 1}, so that the context "
        "has room for one more",
        "token_ids": f"has {len(ids)} entries; allowed: at most {DEMO_CONTEXT}",
    }
    for answer in answers_beside(demo, calls, walk=lambda: tuple(message.token_ids)):
        assert isinstance(answer, grpc.RpcError)
        assert violations(answer).items() <= said.items()


def test_a_megabyte_of_text_is_encoded_beside_other_work(patient: RunningTarget) -> None:
    fits = MEGABYTE[: LONG_CONTEXT // 4]
    ids = byte_level_tokenizer().encode(fits).ids
    messages = [generation_pb2.TokenizeRequest(text=text) for text in (MEGABYTE, "\0" * (1 << 20), fits)]
    calls = [("Tokenize", message.SerializeToString()) for message in messages]
    *refused, served = answers_beside(patient, calls, walk=lambda: byte_level_tokenizer().encode(PAGES))
    for answer in refused:
        assert isinstance(answer, grpc.RpcError)
        assert f"tokens long; allowed: at most {LONG_CONTEXT}" in violations(answer)["text"]
    assert isinstance(served, bytes)
    assert list(generation_pb2.TokenizeResponse.FromString(served).token_ids) == ids


LISTS = {
    "continue_from.token_ids": {"continue_from": {"fingerprint": "", "token_ids": [5] * 1_000_000}},
    "stop.token_ids": {"stop": {"token_ids": [5] * 1_000_000}},
    "stop.strings": {"stop": {"strings": ["a"] * 1_000_000}},
    "sampling.banned_strings": {"sampling": {"banned_strings": ["a"] * 1_000_000}},
    "sampling.logit_bias": {"sampling": {"logit_bias": [{"token_id": 5}] * 500_000}},
    "output.logits_token_ids": {"output": {"logits": True, "logits_token_ids": [5] * 1_000_000}},
    "prompt.chat.messages": {"prompt": {"chat": {"messages": [{}] * 1_000_000}}},
}


@pytest.mark.parametrize("at", LISTS)
def test_lists_of_a_million_are_refused_before_they_are_walked(target: RunningTarget, at: str) -> None:
    request = generation_pb2.StreamGenerateRequest(**{"prompt": {"text": "a"}, **LISTS[at]})
    with pytest.raises(grpc.RpcError) as failure:
        next(target.stub.StreamGenerate(request, timeout=60))
    said = violations(failure.value)[at]
    assert "has 1000000 entries; allowed: at most" in said or "has 500000 entries; allowed: at most 512" in said


def test_a_text_at_the_bound_is_encoded(target: RunningTarget) -> None:
    longest = max(map(len, byte_level_tokenizer().get_vocab()))
    with pytest.raises(grpc.RpcError) as failure:
        target.stub.Tokenize(generation_pb2.TokenizeRequest(text="a" * (CONTEXT_LENGTH * longest)), timeout=60)
    assert "tokens long" in violations(failure.value)["text"]


@pytest.mark.parametrize("size", [10, 1 << 20])
def test_bytes_that_are_no_message_are_refused(demo: RunningTarget, size: int) -> None:
    error = begin(demo, "Tokenize", b"\xff" * size).exception()
    assert isinstance(error, grpc.RpcError)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    problem = f"has {size} bytes that cannot be parsed; allowed: a message of the method's type"
    assert violations(error) == {"request": problem}
