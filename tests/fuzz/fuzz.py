"""Fuzz: random requests and mutated frames for a target and a draft, which must answer and stay as they were."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import Message
from grpc import aio
from smg_grpc_proto.generated import vllm_engine_pb2

from outrider import Client
from outrider.v1 import draft_pb2, generation_pb2
from services.draft_protocol.protocol import PROTOCOL_VERSION
from services.engine.decoder.native import NOISE_VERSION
from services.engine.text.tokenizer import Tokenizer
from services.target.openengine.contract import CONTROL, INFERENCE
from services.target.openengine.v1 import openengine_pb2
from tests.e2e.harness.draft_rig import GREEDY, PATIENCE_SECONDS, PROMPT
from tests.e2e.harness.models import DEMO_TARGET
from tests.e2e.harness.process_usage import ProcessUsage
from tests.e2e.harness.usage_curve import UsageCurve
from tests.fuzz.fuzzed_service import FuzzedService
from tests.fuzz.mutated_frames import call_frames, mutated, send
from tests.fuzz.random_message import RandomMessages, type_of

_NUM_WORKERS = 16
_SAMPLES = 200  # of what the services hold, in each of the two parts of a run
_CALL_SECONDS = 2.0
_MOST_PROBLEMS = 20  # after which it is enough
_MOST_TOKENS = 4  # that most requests may generate
_ENDS = {"stop", "sampling_params", "stopping"}  # the fields that say when a generation ends
_SHARE_UNBOUNDED = 0.002
_SHARE_OF_ANY_BYTES = 0.1  # of paths, and of metadata
_MESSAGES_OF_A_LINK = 12
_WRONG = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DATA_LOSS}
_ENDED_UNDER_A_WRITE = "Internal error from Core"  # gRPC's only word for it on this side, whatever the draft said
_GENERATION = generation_pb2.DESCRIPTOR.services_by_name["GenerationService"]
_CONTRACT = vllm_engine_pb2.DESCRIPTOR.services_by_name["VllmEngine"]
_DRAFT = f"/{draft_pb2.DESCRIPTOR.services_by_name['DraftService'].full_name}/Draft"

_Broken = tuple[str, bytes, FuzzedService]
"""The call that a connection would make before it is broken: path, message and service."""


class Fuzz:
    """One run against both services; in the end `problems` says what was wrong, `statuses` how calls ended, and the
    `curves` what the services held. What is sent follows from the seed and its number alone.
    """

    def __init__(self, target: FuzzedService, draft: FuzzedService, *, seed: int) -> None:
        self._target, self._draft = target, draft
        self._seed = seed
        self._hello = draft_pb2.TargetHello(
            min_protocol_version=PROTOCOL_VERSION,
            max_protocol_version=PROTOCOL_VERSION,
            noise_version=NOISE_VERSION,
            vocabulary_fingerprint=Tokenizer.from_model(DEMO_TARGET).fingerprint(),
        )
        self.statuses: Counter[str] = Counter()
        self.problems: list[str] = []
        self.curves: list[UsageCurve] = []

    async def run(self, *, num_requests: int, num_frames: int) -> None:
        """So many requests by gRPC, one in eight of them a draft link, and then so many broken connections."""
        expected = await asyncio.to_thread(self._answer)
        async with (
            aio.insecure_channel(self._target.address) as target,
            aio.insecure_channel(self._draft.address) as draft,
        ):
            await self._share("requests", num_requests, lambda rng: self._request(rng, target, draft))
        await self._share("frames", num_frames, self._break)
        for service in (self._target, self._draft):
            if not service.is_running:
                self._complain(f"the {service.name} has ended: {service.log()[-2000:]}")
                return
            if "Traceback" in (log := service.log()):
                self._complain(f"the {service.name} has failed at something: {log[log.index('Traceback') :][:2000]}")
            await self._wait_until_idle(service)
        if await asyncio.to_thread(self._answer) != expected:
            self._complain("the same request is answered with another text than before")

    def _complain(self, problem: str) -> None:
        self.problems.append(problem)
        print(f"fuzz: FAILED: {problem}", flush=True)

    def _answer(self) -> str:
        with Client(self._target.address) as client:
            return client.generate(PROMPT, max_tokens=20, speculation="always", **GREEDY).text

    async def _wait_until_idle(self, service: FuzzedService) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while service.num_used_blocks or await service.num_sequences():
                    await asyncio.sleep(0.1)
        except TimeoutError:
            left = f"{await service.num_sequences()} sequences and {service.num_used_blocks} KV blocks"
            self._complain(f"the {service.name} still has {left}")

    async def _share(self, kind: str, count: int, act: Callable[[random.Random], Awaitable[None]]) -> None:
        numbers, step, began = iter(range(count)), max(1, count // _SAMPLES), time.monotonic()
        usages = [ProcessUsage(service.name, service) for service in (self._target, self._draft)]

        async def work() -> None:
            for number in numbers:
                if not (self._target.is_running and self._draft.is_running) or len(self.problems) > _MOST_PROBLEMS:
                    return
                await act(random.Random(f"{self._seed} {kind} {number}"))
                if number % step == 0:
                    for usage in usages:
                        usage.sample()
                if number % (10 * step) == 0:
                    print(f"fuzz: {number} {kind}, {number / (time.monotonic() - began):.0f} a second", flush=True)

        await asyncio.gather(*(work() for _ in range(_NUM_WORKERS)))
        self.curves += [curve for usage in usages for curve in usage]
        print(f"fuzz: {count} {kind}, {count / (time.monotonic() - began):.0f} a second", flush=True)

    async def _request(self, rng: random.Random, target: Any, draft: Any) -> None:
        if rng.random() < 1 / 8:
            await self._link(rng, draft)
            return
        service = rng.choice((_GENERATION, _GENERATION, _CONTRACT, INFERENCE, CONTROL))
        method = rng.choice(service.methods)
        request = type_of(method.input_type)()
        if rng.random() < 0.7:
            _make_valid(request)
        RandomMessages(rng).fill(request, share=rng.choice((0.01, 0.1, 0.5)))
        for ends in (getattr(request, name) for name in _ENDS & {*request.DESCRIPTOR.fields_by_name}):
            if rng.random() >= _SHARE_UNBOUNDED:
                ends.max_tokens = rng.randint(1, _MOST_TOKENS)
            else:
                ends.ignore_eos = True
        path = f"/{service.full_name}/{method.name}"
        if method.server_streaming:
            call: Any = target.unary_stream(path)(request.SerializeToString(), timeout=_CALL_SECONDS)
        else:
            call = target.unary_unary(path)(request.SerializeToString(), timeout=_CALL_SECONDS)
        await self._end(method.name, call, request)

    async def _link(self, rng: random.Random, draft: Any) -> None:
        """A hello, mostly as it should be, and then anything."""
        first = draft_pb2.DraftRequest(hello=self._hello)
        if rng.random() < 0.1:
            RandomMessages(rng).fill(first)
        messages = [first]
        for _ in range(rng.randrange(_MESSAGES_OF_A_LINK)):
            message = draft_pb2.DraftRequest()
            _choose(message, rng)
            messages.append(message)
        raw = iter([message.SerializeToString() for message in messages])
        await self._end("Draft", draft.stream_stream(_DRAFT)(raw, timeout=_CALL_SECONDS), messages[-1])

    async def _end(self, name: str, call: Any, request: Message) -> None:
        try:
            if hasattr(call, "__aiter__"):
                async for _ in call:
                    pass
            else:
                await call
        except aio.AioRpcError as error:
            if error.code() in _WRONG and error.details() != _ENDED_UNDER_A_WRITE:
                self._complain(f"{name}: {error.code().name} {error.details()} for {str(request)[:500]!r}")
        self.statuses[f"{name} {(await call.code()).name}"] += 1

    def _streamed(self) -> _Broken:
        request = generation_pb2.StreamGenerateRequest()
        _make_valid(request)
        request.stop.max_tokens = _MOST_TOKENS
        return f"/{_GENERATION.full_name}/StreamGenerate", request.SerializeToString(), self._target

    def _by_contract(self) -> _Broken:
        request = vllm_engine_pb2.GenerateRequest()
        _make_valid(request)
        request.sampling_params.max_tokens = _MOST_TOKENS
        return f"/{_CONTRACT.full_name}/Generate", request.SerializeToString(), self._target

    def _by_openengine(self) -> _Broken:
        request = openengine_pb2.GenerateRequest()
        _make_valid(request)
        request.stopping.max_tokens = _MOST_TOKENS
        return f"/{INFERENCE.full_name}/Generate", request.SerializeToString(), self._target

    def _linked(self) -> _Broken:
        return _DRAFT, draft_pb2.DraftRequest(hello=self._hello).SerializeToString(), self._draft

    async def _break(self, rng: random.Random) -> None:
        path, message, service = rng.choice((self._streamed, self._by_contract, self._by_openengine, self._linked))()
        if rng.random() < _SHARE_OF_ANY_BYTES:
            path = _any_text(rng)
        metadata = _any_text(rng) if rng.random() < _SHARE_OF_ANY_BYTES else ""
        try:
            await send(service.address, mutated(call_frames(path, message, metadata), rng))
        except OSError as error:
            self._complain(f"the {service.name} takes no connection: {error}")
        self.statuses[f"frames for the {service.name}"] += 1


def _any_text(rng: random.Random) -> str:
    return rng.randbytes(rng.randrange(9)).decode(errors="surrogateescape")


def _make_valid(request: Any) -> None:
    """The request to a model, before anything is changed."""
    names = request.DESCRIPTOR.fields_by_name
    if "prompt" in names and names["prompt"].message_type is None:
        request.prompt = "def f(x):"
    elif "prompt" in names:
        request.prompt.text = "def f(x):"
    if "text" in names:
        request.text = "def f(x):"
    if "token_ids" in names and names["token_ids"].is_repeated:  # of a session, whether they are sent back
        request.token_ids.extend([5, 6, 7])
    if "sampling_params" in names:
        request.sampling_params.SetInParent()
        request.stream = True


def _choose(message: draft_pb2.DraftRequest, rng: random.Random) -> None:
    """One of the link's messages, about one of a few sequences."""
    name = rng.choice(("open", "commit", "window", "close"))
    part = getattr(message, name)
    part.SetInParent()
    RandomMessages(rng).fill(part, share=rng.choice((0.2, 0.8)))
    if rng.random() < 0.9:
        part.sequence_id = rng.randrange(1, 4)
    if name == "open" and rng.random() < 0.7:
        part.sampling.Clear()
        part.sampling.seed = 1
    if name == "commit" and rng.random() < 0.7:
        part.position, part.token_ids[:] = 0, [rng.randrange(500) for _ in range(5)]
