"""Texts and ids of megabytes, many at once: what cannot be served is refused by name, and nobody else notices."""

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import generation_pb2
from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from tests.checkpoints import CONTEXT_LENGTH, byte_level_tokenizer, edit_json
from tests.cpu_time import cpu_seconds
from tests.rpc.commands import outrider_begin
from tests.rpc.health_latency import HealthLatency, is_serving
from tests.rpc.requests import stream_request, violations
from tests.server import RunningTarget, wait_until

DEMO = Path("models/demo/target")
DEMO_CONTEXT, DEMO_LONGEST = 2048, 69
LONG_CONTEXT = 1 << 17
TEXT = Path("models/demo/heldout.txt").read_text()
MEGABYTE = (TEXT * (1 + (1 << 20) // len(TEXT.encode())))[: 1 << 20]
NUM_AT_ONCE = 20
SLOWEST_HEALTH = 1.0  # seconds that the server computes, on as many cores as it finds
LONGEST_SILENCE = 1.0


@dataclass
class Running:
    """A server in a process of its own, whose threads are not this one's."""

    address: str
    pid: int
    channel: grpc.Channel = field(init=False)

    def __post_init__(self) -> None:
        self.channel = grpc.insecure_channel(self.address, [("grpc.use_local_subchannel_pool", 1)])

    @property
    def stub(self) -> GenerationServiceStub:
        return GenerationServiceStub(self.channel)

    def clock(self) -> float:
        """Seconds that it has computed."""
        return cpu_seconds(self.pid)

    def begin(self, method: str, message: bytes) -> Future[Any]:
        """Begin a unary call with bytes that are there already, so that this process has little to do for it."""
        call: Any = self.channel.unary_unary(f"/outrider.v1.GenerationService/{method}")
        return call.future(message, timeout=120)


def serve(model: Path, *arguments: str) -> Iterator[Running]:
    with outrider_begin("target", "--model", str(model), "--listen", "127.0.0.1:0", *arguments) as process:
        assert process.stdout is not None
        running = Running(process.stdout.readline().removeprefix("listening on ").strip(), process.pid)
        wait_until(lambda: is_serving(running.channel))
        yield running
        running.channel.close()


@pytest.fixture(scope="module")
def demo() -> Iterator[Running]:
    yield from serve(DEMO, "--threads", "1", "--no-lookup")


@pytest.fixture(scope="module")
def patient(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose context is so long that megabytes of text might fit."""
    folder = shutil.copytree(model, tmp_path_factory.mktemp("long") / "model")
    edit_json(folder / "config.json", max_position_embeddings=LONG_CONTEXT)
    yield from serve(folder, "--threads", "1", "--no-lookup", "--max-sequences", "2")


class Watched:
    """A stream that is read on a thread, and the longest that its server computed between two of its messages."""

    def __init__(self, running: Running) -> None:
        self.token_ids: list[int] = []
        self.silence = 0.0
        self._request = stream_request(stop={"max_tokens": 900, "ignore_eos": True})
        self._stub = running.stub
        self._clock = running.clock
        self._thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        last: float | None = None
        for event in self._stub.StreamGenerate(self._request, timeout=120):
            now = self._clock()
            self.silence = max(self.silence, 0.0 if last is None else now - last)
            last = now
            self.token_ids.extend(event.chunk.token_ids)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> list[int]:
        self._thread.join()
        return self.token_ids


def answers_beside(running: Running, calls: list[tuple[str, bytes]]) -> list[grpc.RpcError | bytes]:
    """What the calls are answered, while health answers and a stream goes on with the bytes that it has alone."""
    alone = Watched(running)
    alone.begin()
    alone.end()
    beside = Watched(running)
    with HealthLatency(running.address, running.clock) as health:
        beside.begin()
        begun = [running.begin(method, message) for method, message in calls]
        answers = [call.exception() or call.result() for call in begun]
        assert beside.end() == alone.token_ids
    print(f"health: slowest {max(health.seconds):.3f} s of {len(health.seconds)}; silence {beside.silence:.3f} s")
    assert max(health.seconds) < SLOWEST_HEALTH
    assert beside.silence < LONGEST_SILENCE
    return answers


@pytest.mark.parametrize("megabytes", [1, 3.9])
def test_texts_that_no_context_holds_are_refused_at_once_by_name(demo: Running, megabytes: float) -> None:
    text = (MEGABYTE * 4)[: int(megabytes * (1 << 20))]
    size, most = len(text.encode()), DEMO_CONTEXT * DEMO_LONGEST

    generate = generation_pb2.GenerateRequest(prompt={"text": text}).SerializeToString()
    tokenize = generation_pb2.TokenizeRequest(text=text).SerializeToString()
    calls = [("Generate", generate), ("Tokenize", tokenize)] * (NUM_AT_ONCE // 2)
    for index, answer in enumerate(answers_beside(demo, calls)):
        assert isinstance(answer, grpc.RpcError)
        ((at, said),) = violations(answer).items()
        assert at == ("text" if index % 2 else "prompt.text")
        assert said.startswith(f"has {size} bytes; allowed: at most {most} bytes")


def test_ids_that_no_context_holds_are_refused_at_once_by_name(demo: Running) -> None:
    ids = [5] * 4_000_000

    generate = generation_pb2.GenerateRequest(prompt={"token_ids": {"ids": ids}}).SerializeToString()
    detokenize = generation_pb2.DetokenizeRequest(token_ids=ids).SerializeToString()
    calls = [("Generate", generate), ("Detokenize", detokenize)] * (NUM_AT_ONCE // 2)
    said = {
        "prompt.token_ids.ids": f"is {len(ids)} tokens long; allowed: at most {DEMO_CONTEXT - 1}, so that the context "
        "has room for one more",
        "token_ids": f"has {len(ids)} entries; allowed: at most {DEMO_CONTEXT}",
    }
    for answer in answers_beside(demo, calls):
        assert isinstance(answer, grpc.RpcError)
        assert violations(answer).items() <= said.items()


def test_a_megabyte_that_the_context_might_hold_is_encoded_beside_everything_else(patient: Running) -> None:
    fits = MEGABYTE[: LONG_CONTEXT // 4]
    ids = byte_level_tokenizer().encode(fits).ids
    messages = [generation_pb2.TokenizeRequest(text=text) for text in (MEGABYTE, "\0" * (1 << 20), fits)]
    *refused, served = answers_beside(patient, [("Tokenize", message.SerializeToString()) for message in messages])
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
def test_lists_of_a_million_are_refused_by_name_before_they_are_walked(target: RunningTarget, at: str) -> None:
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
def test_bytes_that_are_no_message_are_refused(demo: Running, size: int) -> None:
    error = demo.begin("Tokenize", b"\xff" * size).exception()
    assert isinstance(error, grpc.RpcError)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert violations(error) == {"request": f"has {size} bytes that are no such message; allowed: what its proto says"}
