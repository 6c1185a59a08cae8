"""The load: `python -m benchmarks.host.load WAY ADDRESS STREAMS TOKENS SPECULATION` reads many streams at once.

It is a process of its own, whose time is not counted as the server's, and reads no more of an answer than it has to. It
prints a line of JSON.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from grpc import aio

from outrider.v1 import common_pb2, generation_pb2

_METHOD = "/outrider.v1.GenerationService/StreamGenerate"
_PROMPT = "def quicksort(items):"
_MODES = {"never": common_pb2.SPECULATION_MODE_NEVER, "always": common_pb2.SPECULATION_MODE_ALWAYS}
_PREDICTIONS = 4


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came: tokens, messages that had tokens (by HTTP: events), and seconds from the first request to the end."""

    tokens: int
    messages: int
    seconds: float


async def load(way: str, address: str, streams: int, tokens: int, speculation: str) -> Loaded:
    """Read so many streams at once, each of so many tokens."""
    began = time.perf_counter()
    read = _by_rpc if way == "rpc" else _by_http
    counts = await read(address, streams, tokens, speculation)
    return Loaded(sum(each[0] for each in counts), sum(each[1] for each in counts), time.perf_counter() - began)


async def _by_rpc(address: str, streams: int, tokens: int, speculation: str) -> list[tuple[int, int]]:
    request = generation_pb2.StreamGenerateRequest()
    request.prompt.text = _PROMPT
    request.sampling.temperature = 0
    request.stop.max_tokens, request.stop.ignore_eos = tokens, True
    request.speculation.mode = _MODES[speculation]
    if speculation == "always":
        request.speculation.num_predictions = _PREDICTIONS
    async with aio.insecure_channel(address) as channel:
        call: aio.UnaryStreamMultiCallable[Any, Any] = channel.unary_stream(_METHOD)

        async def one(seed: int) -> tuple[int, int]:
            request.sampling.seed = seed
            answer = [data async for data in call(request.SerializeToString())]
            chunks = [generation_pb2.StreamGenerateResponse.FromString(data).chunk for data in answer]
            counts = [len(chunk.token_ids) for chunk in chunks if chunk.token_ids]
            return sum(counts), len(counts)

        return await asyncio.gather(*map(one, range(streams)))


async def _by_http(address: str, streams: int, tokens: int, speculation: str) -> list[tuple[int, int]]:
    """Over bare sockets."""
    host, _, port = address.rpartition(":")
    asked = {"prompt": _PROMPT, "max_tokens": tokens, "temperature": 0, "speculation": speculation}
    if speculation == "always":
        asked["num_predictions"] = _PREDICTIONS

    async def one(seed: int) -> tuple[int, int]:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(bare_request(host, {**asked, "seed": seed}))
        answer = await reader.read(-1)
        writer.close()
        return num_tokens(answer), answer.count(b"data: {")

    return await asyncio.gather(*map(one, range(streams)))


def bare_request(host: str, asked: dict[str, object]) -> bytes:
    """The request for a stream that no end-of-sequence ends, for a bare socket: an HTTP library would take time."""
    body = json.dumps({**asked, "ignore_eos": True, "stream": True})
    fields = f"Host: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
    return f"POST /v1/completions HTTP/1.1\r\n{fields}\r\n\r\n{body}".encode()


def num_tokens(answer: bytes) -> int:
    """The tokens of a whole answer, which the id of its last event says; raises RuntimeError for an error."""
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the gateway answered {answer[:300]!r}")
    last_id = answer.rpartition(b"id: ")[2].splitlines()[0].decode()
    return int(last_id.rpartition(".")[2].partition("-")[0])


if __name__ == "__main__":
    _, how, where, number, length, mode = sys.argv
    print(json.dumps(asdict(asyncio.run(load(how, where, int(number), int(length), mode)))))
