"""Large answers are encoded over many turns of the gateway's event loop, between other requests' turns."""

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import grpc
import pytest

from outrider.v1 import common_pb2, generation_pb2
from tests.gateway.harness.events import read_events
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.scripted_server import Event, Request, ScriptedServer, ScriptedServicer

CANDIDATES = 100
PROMPT = "ab" * 5000
SOON, LATE = ["a", "b", "c"], "late"
LOGPROBS: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "a", "logprobs": 1},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": 1},
    "/v1/responses": {"input": "a", "include": ["message.output_text.logprobs"], "top_logprobs": 1},
}


class LongServicer(ScriptedServicer):
    """Has many candidates for each token, and bytes for those of the prompt; starts "late" after all others."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._others = threading.Semaphore(0)

    def StreamGenerate(self, request: Request, context: grpc.ServicerContext) -> Iterator[Event]:  # noqa: N802
        """Hold the late prompt back until all others are done."""
        for _ in SOON if request.prompt.text == LATE else ():
            self._others.acquire(timeout=50)
        for event in super().StreamGenerate(request, context):
            for record in event.prefill.records:
                record.bytes = bytes([record.id])
            yield event
        self._others.release()

    def _chunk(self, request: Request, whole: list[int], start: int, end: int) -> generation_pb2.Chunk:
        chunk = super()._chunk(request, whole, start, end)
        if request.output.message_deltas:
            chunk.message_deltas.add(content=chunk.text)
        for record in chunk.records:
            record.candidates.extend(common_pb2.Candidate(id=id_, bytes=bytes([id_])) for id_ in range(CANDIDATES))
        return chunk


@contextmanager
def encoded_by_turn() -> Iterator[dict[int, list[int]]]:
    """Of each thread that runs an event loop the characters of JSON that each of its turns encodes."""
    sizes: dict[int, list[int]] = defaultdict(list)
    run, encode = asyncio.Handle._run, json.JSONEncoder.encode

    def counted_run(handle: asyncio.Handle) -> None:
        sizes[threading.get_ident()].append(0)
        run(handle)

    def counted_encode(encoder: json.JSONEncoder, value: object) -> str:
        told = encode(encoder, value)
        if threading.get_ident() in sizes:
            sizes[threading.get_ident()][-1] += len(told)
        return told

    with (
        mock.patch.object(asyncio.Handle, "_run", counted_run),
        mock.patch.object(json.JSONEncoder, "encode", counted_encode),
    ):
        yield sizes


def answer_in_turns(path: str, body: dict[str, Any]) -> tuple[str, list[int]]:
    """What is answered, and how much of it is encoded in each turn."""
    with (
        ScriptedServer(tokens_per_chunk=1, servicer_type=LongServicer) as server,
        RunningGateway(server.address) as gateway,
        encoded_by_turn() as sizes,
    ):
        answer = gateway.post(path, {**body, "seed": 1})
    assert answer.status_code == 200, answer.text
    (of_gateway,) = (turns for turns in sizes.values() if sum(turns))
    return answer.text, of_gateway


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", LOGPROBS)
def test_an_answer_with_logprobs_is_encoded_over_many_turns(path: str, stream: bool):
    text, turns = answer_in_turns(path, {**LOGPROBS[path], "stream": stream})
    assert sum(turns) > len(text) / 5  # which in a stream of responses has them five times
    assert max(turns) < sum(turns) / 10


@pytest.mark.parametrize("stream", [False, True])
def test_early_answers_are_encoded_over_many_turns(stream: bool):
    body = {"prompt": [*SOON, LATE], "logprobs": 1, "stream": stream}
    _, turns = answer_in_turns("/v1/completions", body)
    assert max(turns) < sum(turns) / 10


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", [PROMPT, [*PROMPT.encode()]])
def test_a_long_echoed_prompt_is_encoded_over_many_turns(prompt: Any, stream: bool):
    """As one text and its tokens in order, in however many events."""
    body = {"prompt": prompt, "echo": True, "logprobs": 1, "max_tokens": 2, "n": 1, "stream": stream}
    text, turns = answer_in_turns("/v1/completions", body)
    assert max(turns) < sum(turns) / 10
    told = [event.data for event in read_events([*text.splitlines(), ""])] if stream else [json.loads(text)]
    choices = [part["choices"][0] for part in told]
    lists = [choice["logprobs"] for choice in choices if choice["logprobs"]]
    assert "".join(choice["text"] for choice in choices).startswith(PROMPT)
    assert [one for each in lists for one in each["tokens"]][: len(PROMPT)] == [*PROMPT]
    assert [one for each in lists for one in each["text_offset"]] == [*range(len(PROMPT) + 2)]
