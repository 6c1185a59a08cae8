"""A draft service inside the test's own process, and a link to it on which a test sends any messages."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc
import pytest

from outrider.v1 import draft_pb2
from outrider.v1.draft_pb2_grpc import DraftServiceStub
from services.draft.engine import DraftEngine
from services.draft.server import DraftServer
from services.draft.vocabulary.vocabularies import Way
from services.draft_protocol.protocol import PROTOCOL_VERSION
from services.engine.config import EngineConfig, resolve_isa
from services.engine.decoder.native import NOISE_VERSION
from services.service.server_config import ServerConfig
from tests.harness.servers.loop_thread import LoopThread, Result
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.requests import stream, stream_request

MAX_SEQUENCES = 4
NUM_BLOCKS = 24
_SERVER = ServerConfig(listen="127.0.0.1:0", admin_listen="127.0.0.1:0", drain_seconds=0)
PROMPT = [5, 77, 130, 21, 300, 42, 9]
GREEDY = {"temperature": 0.0, "top_p": 1.0, "repetition_penalty": 1.0, "seed": 5}
SAMPLED = {**GREEDY, "temperature": 0.8, "top_k": 40, "top_p": 0.9, "frequency_penalty": 0.5}
REFUSED = draft_pb2.RELEASE_REASON_REFUSED
TOO_LONG = draft_pb2.RELEASE_REASON_TOO_LONG
OUT_OF_MEMORY = draft_pb2.RELEASE_REASON_OUT_OF_MEMORY


class RunningDraft:
    """A draft service on a free port, with an event loop on a thread of its own."""

    def __init__(
        self,
        model: Path,
        *,
        server: ServerConfig = _SERVER,
        target_tokenizers: Seq[Path] = (),
        translate: Way = Way.AUTO,
        head_shortlist: int | None = None,
        loras: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        self._thread = LoopThread()
        making = self._make(
            model,
            server,
            target_tokenizers=target_tokenizers,
            translate=translate,
            head_shortlist=head_shortlist,
            loras=loras,
        )
        self.server: DraftServer = self._thread.call(making)
        self.address: str = self._thread.call(self.server.start())
        self._thread.call(self.server.open())

    def begin(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start a coroutine on the service's loop."""
        return self._thread.begin(coroutine)

    @property
    def engine(self) -> DraftEngine:
        assert self.server.engine is not None
        return self.server.engine

    @contextmanager
    def held(self) -> Iterator[Callable[[], int]]:
        """Hold the engine between two steps; the function tells how many messages wait for it."""
        is_held, may_go_on = threading.Event(), threading.Event()
        loop = self.engine._loop

        def hold() -> None:
            is_held.set()
            may_go_on.wait()

        loop.post(hold)
        is_held.wait()
        try:
            yield loop._commands.qsize
        finally:
            may_go_on.set()

    def assert_all_free(self) -> None:
        """Wait until every KV block is free, and see that the engine still works."""
        blocks = self.engine.model.blocks
        wait_until(lambda: blocks.num_free == blocks.num_blocks)
        blocks.check_integrity([])

    def close(self) -> None:
        self._thread.call(self.server.close())
        self._thread.close()

    async def _make(self, model: Path, server: ServerConfig, **options: Any) -> DraftServer:
        config = EngineConfig(
            model=model, isa=resolve_isa(), threads=1, kv_blocks=NUM_BLOCKS, max_sequences=MAX_SEQUENCES, max_rows=64
        )
        return DraftServer(config, server, **options)


@contextmanager
def drafted_target(model: Path, draft: Path, **settings: Any) -> Iterator[RunningTarget]:
    """A target and a draft of its own, which are linked; `settings` are those of `target_server`."""
    with (
        closing(RunningDraft(draft)) as running,
        target_server(model, drafts=[running.address], **settings) as target,
    ):
        target.wait_for_draft()
        yield target


class Link:
    """A target's end of one stream."""

    def __init__(self, draft: RunningDraft, **hello: Any) -> None:
        self._channel = grpc.insecure_channel(draft.address, [("grpc.use_local_subchannel_pool", 1)])
        self._requests: queue.Queue[draft_pb2.DraftRequest | None] = queue.Queue()
        self._call = DraftServiceStub(self._channel).Draft(iter(self._requests.get, None), timeout=60)
        self._heard: deque[draft_pb2.DraftResponse] = deque()
        self.epochs: dict[int, int] = {}
        self._next_probe = 1000
        if hello:
            self.send(hello=hello)

    def send(self, **message: Any) -> None:
        self._requests.put(draft_pb2.DraftRequest(**message))

    def open(self, sequence_id: int = 1, *, prompt_tokens: int = len(PROMPT), **fields: Any) -> None:
        fields = {"sampling": GREEDY, **fields}
        self.send(open={"sequence_id": sequence_id, "prompt_tokens": prompt_tokens, **fields})

    def commit(self, position: int, token_ids: list[int], sequence_id: int = 1, **credit: int) -> None:
        self.send(commit={"sequence_id": sequence_id, "position": position, "token_ids": token_ids, **credit})

    def window(self, tokens: int, sequence_id: int = 1) -> None:
        self.send(window={"sequence_id": sequence_id, "tokens": tokens})

    def begin(self, prompt: list[int], window: int, sequence_id: int = 1, **fields: Any) -> None:
        """Open a sequence, commit its prompt and grant a window."""
        self.open(sequence_id, prompt_tokens=len(prompt), **fields)
        self.commit(0, prompt, sequence_id)
        self.window(window, sequence_id)

    def next(self) -> draft_pb2.DraftResponse:
        if not self._heard:
            response = next(self._call)
            self._heard.extend([response, *response.further])
        return self._heard.popleft()

    def predictions(self, count: int, *, position: int, sequence_id: int = 1) -> list[int]:
        """The next `count` tokens from `position` on; there may be no other message, and no further token, yet."""
        tokens: list[int] = []
        while len(tokens) < count:
            run = self.next().predict
            assert (run.sequence_id, run.position) == (sequence_id, position + len(tokens))
            assert self.epochs.get(sequence_id) in (None, run.epoch) or not tokens
            self.epochs[sequence_id] = run.epoch
            tokens += run.token_ids
        assert len(tokens) == count
        return tokens

    def released(self) -> tuple[int, int]:
        message = self.next()
        assert message.WhichOneof("message") == "released", message
        return message.released.sequence_id, message.released.reason

    def assert_silent(self) -> None:
        """Assert that nothing is sent during a whole step; the answer to another sequence shows that it has passed."""
        probe, self._next_probe = self._next_probe, self._next_probe + 2
        self.begin(PROMPT, 1, sequence_id=probe)
        self.predictions(1, position=len(PROMPT), sequence_id=probe)
        self.send(close={"sequence_id": probe})
        self.open(sequence_id=probe + 1, sampling={**GREEDY, "top_k": -1})
        assert self.released() == (probe + 1, REFUSED)

    def failure(self) -> tuple[grpc.StatusCode, str | None]:
        with pytest.raises(grpc.RpcError) as failure:
            for _ in self._call:
                pass
        return failure.value.code(), failure.value.details()

    def half_close(self) -> list[draft_pb2.DraftResponse]:
        """Send no more, and read on to the end."""
        self._requests.put(None)
        return [*self._heard, *(each for response in self._call for each in (response, *response.further))]

    def close(self) -> None:
        self._requests.put(None)
        self._channel.close()


def hello_of(draft: RunningDraft) -> dict[str, Any]:
    return {
        "min_protocol_version": PROTOCOL_VERSION,
        "max_protocol_version": PROTOCOL_VERSION,
        "noise_version": NOISE_VERSION,
        "vocabulary_fingerprint": draft.engine.model.tokenizer.fingerprint(),
    }


def generate(target: RunningTarget, prompt: list[int], count: int, sampling: dict[str, Any]) -> list[int]:
    """What the same model generates as a target."""
    stop = {"max_tokens": count, "ignore_eos": True}
    never = {"mode": "SPECULATION_MODE_NEVER"}
    return stream(target, stream_request(prompt, sampling=sampling, stop=stop, speculation=never)).token_ids


def follow(target: RunningTarget, generated: list[int], count: int, sampling: dict[str, Any]) -> list[int]:
    """The tokens that the same model generates as a target after some tokens that it is said to have generated."""
    started = stream(target, stream_request(PROMPT, sampling=sampling)).started
    request = stream_request(
        PROMPT,
        sampling=sampling,
        stop={"max_tokens": len(generated) + count, "ignore_eos": True},
        continue_from={"fingerprint": started.fingerprint, "token_ids": generated},
    )
    return stream(target, request).token_ids


def collect(link: Link, counts: dict[int, int]) -> dict[int, list[int]]:
    """The predictions of several sequences, in whatever order they come."""
    seen: dict[int, list[int]] = {sequence_id: [] for sequence_id in counts}
    while any(len(seen[sequence_id]) < count for sequence_id, count in counts.items()):
        run = link.next().predict
        seen[run.sequence_id] += run.token_ids
    return seen
