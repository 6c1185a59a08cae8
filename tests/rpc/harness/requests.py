"""Requests, and what came of them."""

import re
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from outrider.v1 import common_pb2, generation_pb2
from services.target.api.chat import callable_tools
from tests.harness.servers.server import RunningTarget

PROMPT = "import os\nimport sys\n\ndef main(argv):\n"


def stream_request(prompt: Any = PROMPT, **fields: Any) -> generation_pb2.StreamGenerateRequest:
    """A request for 24 seeded tokens of a text or of ids, changed by `fields`: whole sub-messages by their names."""
    if isinstance(prompt, str):
        prompt = {"text": prompt}
    elif not isinstance(prompt, dict):
        prompt = {"token_ids": {"ids": prompt}}
    defaults = {"sampling": {"seed": 5}, "stop": {"max_tokens": 24, "ignore_eos": True}}
    return generation_pb2.StreamGenerateRequest(prompt=prompt, **{**defaults, **fields})


def as_unary(request: generation_pb2.StreamGenerateRequest) -> generation_pb2.GenerateRequest:
    """The same request for Generate: the two messages have the same fields and numbers."""
    return generation_pb2.GenerateRequest.FromString(request.SerializeToString())


@dataclass(frozen=True)
class Streamed:
    """The events of one whole stream, by kind and in order."""

    kinds: list[str]
    started: generation_pb2.Started
    prefills: list[generation_pb2.Prefill]
    chunks: list[generation_pb2.Chunk]
    finished: generation_pb2.Finished

    @property
    def text(self) -> str:
        """The whole text: that of all chunks, and the last."""
        return "".join(chunk.text for chunk in self.chunks) + self.finished.text

    @property
    def token_ids(self) -> list[int]:
        """The ids of all chunks."""
        return [token_id for chunk in self.chunks for token_id in chunk.token_ids]

    @property
    def records(self) -> list[common_pb2.TokenRecord]:
        """The records of all chunks."""
        return [record for chunk in self.chunks for record in chunk.records]

    @property
    def reason(self) -> str:
        """Why it ended."""
        return common_pb2.FinishReason.Name(self.finished.reason)


def stream(target: RunningTarget, request: generation_pb2.StreamGenerateRequest, timeout: float = 60) -> Streamed:
    """Run a stream to its end."""
    events = list(target.stub.StreamGenerate(request, timeout=timeout))
    by_kind: dict[str, list[Any]] = {"started": [], "prefill": [], "chunk": [], "finished": []}
    kinds: list[str] = [event.WhichOneof("event") or "" for event in events]
    for kind, event in zip(kinds, events, strict=True):
        by_kind[kind].append(getattr(event, kind))
    return Streamed(kinds, by_kind["started"][0], by_kind["prefill"], by_kind["chunk"], by_kind["finished"][0])


def continued(
    request: generation_pb2.StreamGenerateRequest, whole: Streamed, count: int
) -> generation_pb2.StreamGenerateRequest:
    """The request that continues after so many tokens, with the tools that the answer may call."""
    rest = generation_pb2.StreamGenerateRequest()
    rest.CopyFrom(request)
    if request.prompt.HasField("chat"):
        rest.output.tools.MergeFrom(callable_tools(request))
    rest.prompt.token_ids.ids[:] = whole.started.prompt_token_ids
    rest.continue_from.fingerprint = whole.started.fingerprint
    rest.continue_from.token_ids[:] = whole.token_ids[:count]
    return rest


def stop_string_in(text: str, start: int) -> str:
    """Three characters of ASCII in a text, from `start` on: what random bytes surround is no stop string."""
    found = re.compile("[ -~]{3}").search(text, start)
    assert found is not None
    return found.group()


def detail(error: grpc.RpcError, kind: type[Message]) -> Any:
    """The google.rpc detail of a kind that came with an error."""
    status = rpc_status.from_call(error)
    assert status is not None
    message = kind()
    assert any(packed.Unpack(message) for packed in status.details), f"{error} has no {kind.__name__}"
    return message


def violations(error: grpc.RpcError) -> dict[str, str]:
    """The bad fields that an error names, with their descriptions."""
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, error
    bad_request = detail(error, error_details_pb2.BadRequest)
    return {violation.field: violation.description for violation in bad_request.field_violations}
