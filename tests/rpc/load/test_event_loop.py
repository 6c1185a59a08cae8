"""Slow work for single requests never runs on the event loop, which serves the messages of all."""

import threading
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from outrider.v1 import generation_pb2
from services.engine.grammar.compiler import GrammarCompiler
from services.engine.text import healing
from services.engine.text.tokenizer import Tokenizer
from services.service import interceptors
from services.target.api import prompts, requests, servicer
from services.target.message.message_reader import MessageReader
from services.target.output.output_pipeline import OutputPipeline
from services.target.prompt.chat_template import ChatTemplate
from tests.harness.servers.server import RunningTarget, wait_until
from tests.rpc.harness import chat_examples
from tests.rpc.harness.requests import as_unary, continued, stream, stream_request

LARGE = 1 << 20  # bytes of a request
NUM_AT_ONCE = 8
LONG_WORK: list[tuple[Any, str]] = [
    (Tokenizer, "encode"),
    (Tokenizer, "ids_beginning_with"),
    (GrammarCompiler, "compile_again"),
    (ChatTemplate, "render"),
    (MessageReader, "__init__"),
    (OutputPipeline, "_replay"),
    (healing, "plan_healing"),
    (interceptors, "_parsed"),
    (prompts, "_read_ids"),
    (prompts, "_read_source"),
    (requests, "read_sampling"),
    (requests, "_read_continuation"),
    (servicer, "write_tokens"),
    (servicer, "detokenize"),
    (servicer, "write_whole"),
]


class Whereabouts:
    """On which threads each of the functions ran."""

    def __init__(self) -> None:
        self.of: dict[str, set[int]] = {name: set() for _, name in LONG_WORK}

    def noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            is_nothing = name == "_replay" and not arguments[0].sequence.request.received
            is_small = name == "_parsed" and len(arguments[1]) < LARGE
            if not (is_nothing or is_small):
                self.of[name].add(threading.get_ident())
            return function(*arguments, **options)

        return run


@pytest.fixture
def whereabouts(monkeypatch: pytest.MonkeyPatch) -> Whereabouts:
    noted = Whereabouts()
    for owner, name in LONG_WORK:
        wrapped = noted.noting(name, getattr(owner, name))
        monkeypatch.setattr(owner, name, wrapped)
        if name == "plan_healing":
            monkeypatch.setattr(requests, name, wrapped)
    return noted


async def this_thread() -> int:
    return threading.get_ident()


def test_slow_work_runs_beside_the_event_loop(
    target: RunningTarget, whereabouts: Whereabouts, templates_have_time: None
) -> None:
    whole = stream(target, stream_request(output={"prompt_token_ids": True}))
    stream(target, continued(stream_request(), whole, 12))
    stream(target, stream_request(grammar={"regex": "[ab]{7}"}))
    stream(target, stream_request({"text": "import os ", "heal": True}))
    chat = chat_examples.chat(tools=[chat_examples.F], tool_choice={"mode": chat_examples.REQUIRED})
    request = stream_request()
    request.MergeFrom(generation_pb2.StreamGenerateRequest(**chat))
    stream(target, request)
    target.stub.Generate(as_unary(request))
    ids = target.stub.Tokenize(generation_pb2.TokenizeRequest(text="import os")).token_ids
    target.stub.Detokenize(generation_pb2.DetokenizeRequest(token_ids=ids))
    with pytest.raises(grpc.RpcError):
        target.stub.Detokenize(generation_pb2.DetokenizeRequest(token_ids=[5] * LARGE))
    loop = target.call(this_thread())
    assert [name for name, threads in whereabouts.of.items() if not threads] == [], "all of it ran"
    assert [name for name, threads in whereabouts.of.items() if loop in threads] == []


def test_large_requests_are_parsed_one_after_the_other(target: RunningTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library lets no other thread run while it parses one: of many at once the event loop waits for one only."""
    message = generation_pb2.TokenizeRequest(text="a" * LARGE).SerializeToString()
    parse, may_go_on = interceptors._parsed, threading.Event()
    parsing: list[int] = []
    most = 0

    def held(parser: Callable[[bytes], Any], data: bytes) -> Any:
        nonlocal most
        if len(data) < LARGE:
            return parse(parser, data)
        parsing.append(threading.get_ident())
        most = max(most, len(parsing))
        may_go_on.wait()
        try:
            return parse(parser, data)
        finally:
            parsing.remove(threading.get_ident())

    monkeypatch.setattr(interceptors, "_parsed", held)
    ask: Any = target.channel.unary_unary("/outrider.v1.GenerationService/Tokenize")
    calls = [ask.future(message) for _ in range(NUM_AT_ONCE)]
    try:
        wait_until(lambda: target.server._server.held_bytes.total == NUM_AT_ONCE * len(message))
        assert target.health() == "SERVING"
    finally:
        may_go_on.set()
    assert all(isinstance(call.exception(), grpc.RpcError) for call in calls)
    assert most == 1
