"""Requests of the contract, and what came of them."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from smg_grpc_proto.generated import vllm_engine_pb2, vllm_engine_pb2_grpc

from tests.harness.servers.server import RunningTarget

PROMPT = [5, 77, 130, 21, 300, 42, 9]
DEFAULTS = {"seed": 5, "max_tokens": 24, "ignore_eos": True}


def stub_of(target: RunningTarget) -> Any:
    """What calls the contract's methods."""
    return vllm_engine_pb2_grpc.VllmEngineStub(target.channel)


def contract_request(
    prompt: str | list[int] = PROMPT, *, stream: bool = True, request_id: str = "", **sampling: Any
) -> vllm_engine_pb2.GenerateRequest:
    """A request for 24 seeded tokens, changed by fields of SamplingParams."""
    params = vllm_engine_pb2.SamplingParams(**{**DEFAULTS, **sampling})
    request = vllm_engine_pb2.GenerateRequest(request_id=request_id, sampling_params=params, stream=stream)
    if isinstance(prompt, str):
        request.text = prompt
    else:
        request.tokenized.input_ids[:] = prompt
    return request


@dataclass
class Asked:
    """One sample: its chunks, if there are any, and its end."""

    chunks: list[vllm_engine_pb2.GenerateStreamChunk] = field(default_factory=list)
    ends: list[vllm_engine_pb2.GenerateComplete] = field(default_factory=list)

    @property
    def end(self) -> vllm_engine_pb2.GenerateComplete:
        """Its only end, after all chunks."""
        (end,) = self.ends
        return end

    @property
    def token_ids(self) -> list[int]:
        """As the end has them; the chunks, where there are any, have the same."""
        told = [token_id for chunk in self.chunks for token_id in chunk.token_ids]
        assert told in ([], [*self.end.output_ids])
        return [*self.end.output_ids]

    @property
    def logprobs(self) -> list[float]:
        """Of all tokens, in whichever messages they came."""
        told = [*(chunk.output_logprobs for chunk in self.chunks), self.end.output_logprobs]
        return [value for one in told for value in one.token_logprobs]


def ask_all(target: RunningTarget, request: vllm_engine_pb2.GenerateRequest, timeout: float = 60) -> list[Asked]:
    """All samples of a request, in their order."""
    asked: defaultdict[int, Asked] = defaultdict(Asked)
    for response in stub_of(target).Generate(request, timeout=timeout):
        if response.HasField("chunk"):
            assert not asked[response.chunk.index].ends
            asked[response.chunk.index].chunks.append(response.chunk)
        else:
            asked[response.complete.index].ends.append(response.complete)
    return [asked[index] for index in range(len(asked))]


def ask(target: RunningTarget, request: vllm_engine_pb2.GenerateRequest, timeout: float = 60) -> Asked:
    """The only sample of a request."""
    (asked,) = ask_all(target, request, timeout)
    return asked
