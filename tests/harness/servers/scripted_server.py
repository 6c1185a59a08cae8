"""A server that keeps to the protocol with a toy model, and breaks down where its script says.

The toy's vocabulary is the 256 bytes and one end token. Its next token is a pure function of prompt, seed and position:
a byte of a fixed UTF-8 text, rotated by seed and prompt, whose characters take up to four tokens.
"""

# ruff: noqa: N802

import threading
from collections import deque
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

import grpc
from grpc_health.v1.health_pb2_grpc import HealthServicer, add_HealthServicer_to_server

from outrider.v1 import common_pb2, generation_pb2
from outrider.v1.generation_pb2_grpc import GenerationServiceServicer, add_GenerationServiceServicer_to_server

EOS = 256
TEXT = "naïve café, 東京 🚀 straße — ok. "
DRAWN_SEED = 2**63 + 5
HELD_TEXT = "held\ufffd"  # what the end of a generation with a time limit releases

Request = generation_pb2.StreamGenerateRequest
Event = generation_pb2.StreamGenerateResponse


@dataclass(frozen=True)
class Fault:
    """How one call goes wrong: where, how, and what the server has become afterwards."""

    at: int | Literal["arrival", "end"]  # tokens sent in this call; before `started`; just before `finished`
    how: grpc.StatusCode | Literal["end", "hang"] = grpc.StatusCode.UNAVAILABLE  # "end": as if all were well
    details: str = "scripted"
    new_fingerprint: str | None = None


def answer(prompt: Seq[int], seed: int, max_tokens: int | None = None) -> list[int]:
    """All token ids that follow a prompt."""
    turn = (seed + sum(prompt)) % len(TEXT)
    ids = [*(TEXT[turn:] + TEXT[:turn]).encode(), EOS]
    return ids if max_tokens is None else ids[:max_tokens]


def text_of(ids: Seq[int], *, is_whole: bool) -> str:
    """The text released by ids: whole characters only, until the generation is whole."""
    spelled = bytes(token_id for token_id in ids if token_id != EOS)
    if is_whole:
        return spelled.decode(errors="replace")
    while True:
        try:
            return spelled.decode()
        except UnicodeDecodeError as error:
            spelled = spelled[: error.start]


class ScriptedServicer(GenerationServiceServicer):
    """Answers from the toy model; the n-th call suffers the n-th fault, those after the last none."""

    def __init__(self, faults: Seq[Fault | None], fingerprint: str, tokens_per_chunk: int) -> None:
        self.requests: list[Request] = []
        self.ended = threading.Event()
        """Set when a stream has ended, on either side."""
        self._faults = deque(faults)
        self._fingerprint = fingerprint
        self._tokens_per_chunk = tokens_per_chunk

    def StreamGenerate(self, request: Request, context: grpc.ServicerContext) -> Iterator[Event]:
        """One stream, continued from the position in the request."""
        self.requests.append(request)
        context.add_callback(self.ended.set)
        fault = self._next_fault()
        if request.HasField("continue_from") and not self._goes_on_from(request.continue_from.fingerprint):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"the fingerprint is {self._fingerprint}")
        if fault and fault.at == "arrival":
            self._strike(fault, context)
            return
        prompt = list(request.prompt.text.encode() if request.prompt.HasField("text") else request.prompt.token_ids.ids)
        seed = request.sampling.seed if request.sampling.HasField("seed") else DRAWN_SEED
        whole = answer(prompt, seed, request.stop.max_tokens if request.stop.HasField("max_tokens") else None)
        yield Event(started=self._started(request, prompt, seed))
        position = start = len(request.continue_from.token_ids)
        told = prompt if request.output.prompt_logprobs and not start else []
        records = [common_pb2.TokenRecord(id=token_id) for token_id in told]
        yield Event(prefill=generation_pb2.Prefill(done_tokens=len(prompt), total_tokens=len(prompt), records=records))
        assert whole[:start] == list(request.continue_from.token_ids), "the client sent ids that it never received"
        while True:
            is_whole = position == len(whole)
            if fault and (fault.at == position - start or (fault.at == "end" and is_whole)):
                self._strike(fault, context)
                return
            if is_whole:
                break
            end = min(position + self._tokens_per_chunk, len(whole))
            if fault and isinstance(fault.at, int):
                end = min(end, start + fault.at)
            yield Event(chunk=self._chunk(request, whole, position, end))
            position = end
        yield Event(finished=self._finished(request, prompt, whole))

    @property
    def has_faults(self) -> bool:
        """Whether some are left for calls to come."""
        return bool(self._faults)

    def _next_fault(self) -> Fault | None:
        return self._faults.popleft() if self._faults else None

    def _goes_on_from(self, fingerprint: str) -> bool:
        return fingerprint == self._fingerprint

    def _strike(self, fault: Fault, context: grpc.ServicerContext) -> None:
        self._fingerprint = fault.new_fingerprint or self._fingerprint
        if isinstance(fault.how, grpc.StatusCode):
            context.abort(fault.how, fault.details)
        if fault.how == "hang":
            is_over = threading.Event()
            if context.add_callback(is_over.set):
                is_over.wait()

    def _started(self, request: Request, prompt: list[int], seed: int) -> generation_pb2.Started:
        return generation_pb2.Started(
            request_id=request.request_id or "made-up",
            seed=seed,
            prompt_token_ids=prompt if request.output.prompt_token_ids else (),
            prompt_tokens=len(prompt),
            model="toy",
            fingerprint=self._fingerprint,
        )

    def _chunk(self, request: Request, whole: list[int], start: int, end: int) -> generation_pb2.Chunk:
        before = text_of(whole[:start], is_whole=False)
        after = text_of(whole[:end], is_whole=end == len(whole))
        records = []
        if request.output.token_records or request.output.logprobs:
            records = [_record(token_id, request.output.logprobs) for token_id in whole[start:end]]
        return generation_pb2.Chunk(text=after[len(before) :], token_ids=whole[start:end], records=records)

    def _finished(self, request: Request, prompt: list[int], whole: list[int]) -> generation_pb2.Finished:
        finished = generation_pb2.Finished(
            reason=common_pb2.FINISH_REASON_MAX_TOKENS,
            usage=common_pb2.Usage(prompt_tokens=len(prompt), completion_tokens=len(whole)),
            speculation=common_pb2.SpeculationStats(
                passes=len(whole),
                tokens_per_pass=1,
                no_speculation_reason=common_pb2.NO_SPECULATION_REASON_NO_PREDICTOR,
                no_speculation_detail="a toy",
            ),
        )
        finished.timings.prefill.FromMilliseconds(1500)
        if request.stop.HasField("time_limit"):
            finished.reason, finished.text = common_pb2.FINISH_REASON_TIME_LIMIT, HELD_TEXT
        elif whole[-1] == EOS:
            finished.reason = common_pb2.FINISH_REASON_STOP_TOKEN
            finished.stop_token_id = EOS
        return finished

    def Generate(
        self, request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> generation_pb2.GenerateResponse:
        """Not used by the client, which streams."""
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "not part of the script")

    def Score(
        self, request: generation_pb2.ScoreRequest, context: grpc.ServicerContext
    ) -> generation_pb2.ScoreResponse:
        """Every byte of a choice is as likely as it is small."""
        if fault := self._next_fault():
            self._strike(fault, context)
        spelled = [choice.text.encode() for choice in request.choices]
        scores = [
            generation_pb2.TextScore(
                logprob=-sum(text),
                token_ids=text,
                token_logprobs=[-byte for byte in text],
                token_ranks=[byte + 1 for byte in text],
            )
            for text in spelled
        ]
        return generation_pb2.ScoreResponse(scores=scores, model="toy", fingerprint=self._fingerprint)

    def Embed(
        self, request: generation_pb2.EmbedRequest, context: grpc.ServicerContext
    ) -> generation_pb2.EmbedResponse:
        """A vector's numbers are the bytes of its text."""
        if fault := self._next_fault():
            self._strike(fault, context)
        spelled = [text.text.encode() for text in request.inputs]
        vectors = [generation_pb2.TextEmbedding(values=text, prompt_tokens=len(text)) for text in spelled]
        return generation_pb2.EmbedResponse(embeddings=vectors, model="toy", fingerprint=self._fingerprint)

    def Tokenize(
        self, request: generation_pb2.TokenizeRequest, context: grpc.ServicerContext
    ) -> generation_pb2.TokenizeResponse:
        """One id per byte."""
        if fault := self._next_fault():
            self._strike(fault, context)
        spelled = (request.text or "".join(message.content for message in request.chat.messages)).encode()
        return generation_pb2.TokenizeResponse(token_ids=spelled, token_bytes=[bytes([byte]) for byte in spelled])

    def Detokenize(
        self, request: generation_pb2.DetokenizeRequest, context: grpc.ServicerContext
    ) -> generation_pb2.DetokenizeResponse:
        """The bytes, which need not be UTF-8."""
        spelled = bytes(request.token_ids)
        return generation_pb2.DetokenizeResponse(text=spelled.decode(errors="replace"), bytes=spelled)

    def GetModelInfo(
        self, request: generation_pb2.GetModelInfoRequest, context: grpc.ServicerContext
    ) -> generation_pb2.GetModelInfoResponse:
        """Describe the toy model."""
        return generation_pb2.GetModelInfoResponse(
            name="toy",
            vocab_size=EOS + 1,
            eos_token_ids=[EOS],
            fingerprint=self._fingerprint,
            fingerprint_parts=generation_pb2.FingerprintParts(noise_version=3),
            limits=generation_pb2.Limits(max_stop_strings=4),
        )

    def ListModels(
        self, request: generation_pb2.ListModelsRequest, context: grpc.ServicerContext
    ) -> generation_pb2.ListModelsResponse:
        """The toy, and one that is not loaded."""
        response = generation_pb2.ListModelsResponse()
        info = self.GetModelInfo(generation_pb2.GetModelInfoRequest(), context)
        response.models.add(name="toy", state=generation_pb2.MODEL_STATE_READY, info=info)
        response.models.add(name="large", state=generation_pb2.MODEL_STATE_LOADING)
        return response


def _record(token_id: int, logprobs: bool) -> common_pb2.TokenRecord:
    record = common_pb2.TokenRecord(id=token_id, bytes=bytes([token_id % 256]), predicted=token_id % 2 == 0)
    if logprobs:
        record.raw_logprob = -token_id / 7
        record.candidates.add(id=token_id, raw_logprob=-token_id / 7, processed_logprob=float("-inf"))
    return record


class ScriptedServer:
    """Serves a scripted servicer on a port of its own, or on a given one."""

    def __init__(
        self,
        *faults: Fault | None,
        fingerprint: str = "f1",
        tokens_per_chunk: int = 3,
        port: int = 0,
        servicer_type: Callable[..., ScriptedServicer] = ScriptedServicer,
        health: HealthServicer | None = None,
    ) -> None:
        self.servicer = servicer_type(faults, fingerprint, tokens_per_chunk)
        self._server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        add_GenerationServiceServicer_to_server(self.servicer, self._server)
        if health is not None:
            add_HealthServicer_to_server(health, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self._server.start()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """The stream requests that it got."""
        return self.servicer.requests

    def stop(self) -> None:
        """Stop at once, cutting what is open."""
        self._server.stop(None).wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
