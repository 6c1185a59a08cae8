"""The clients of other languages: the same text as in Python, and plain words for all that may go wrong."""

import re
import signal
import subprocess
from collections.abc import Iterator

import grpc
import pytest

from outrider import Client
from outrider.v1 import common_pb2, generation_pb2
from tests.clients.conftest import HEEDS_CTRL_C, SECONDS, RunClient
from tests.harness.network.free_port import free_port
from tests.harness.network.unused_proxy import unused_proxy
from tests.harness.servers.scripted_server import (
    DRAWN_SEED,
    HELD_TEXT,
    Fault,
    ScriptedServer,
    ScriptedServicer,
    answer,
    text_of,
)
from tests.harness.servers.server import RunningTarget

PROMPT = 'def größe(items):\n    """Größe, 東京 🚀"""\n'
FIGURES = re.compile(
    r"(?P<tokens>\d+) tokens · \d+\.\d tokens/s · first token after \d+ ms · 1\.00 tokens per pass"
    r" · no predictions · ended by (?P<reason>max tokens|stop token)\n"
)


@pytest.mark.parametrize(
    ("temperature", "seed"), [(0.0, 0), pytest.param(0.7, 7, marks=pytest.mark.exhaustive), (1.0, 2**64 - 1)]
)
def test_the_text_is_that_of_the_python_client(
    run_client: RunClient, target: RunningTarget, temperature: float, seed: int
):
    with Client(target.address) as client:
        expected = client.generate(PROMPT, max_tokens=40, temperature=temperature, seed=seed)
    options = (f"--address={target.address}", "--max-tokens=40", f"--temperature={temperature}", f"--seed={seed}")
    ended = run_client(*options, PROMPT)
    assert (ended.stdout, ended.returncode) == (expected.text + "\n", 0)
    figures = FIGURES.fullmatch(ended.stderr)
    assert figures is not None, ended.stderr
    assert int(figures["tokens"]) == expected.usage.completion_tokens
    assert figures["reason"] == expected.finish_reason.replace("_", " ")


def test_clear_text_goes_to_no_proxy(
    run_client: RunClient, command: list[str], target: RunningTarget, monkeypatch: pytest.MonkeyPatch
):
    with unused_proxy(monkeypatch):  # once the client is built: what builds it may need the environment's
        ended = run_client(f"--address={target.address}", "--max-tokens=2", "--temperature=0", PROMPT)
    assert (ended.returncode, ended.stderr.split(" · ")[0]) == (0, "2 tokens")


def test_every_bad_field_is_named_with_its_range(run_client: RunClient, target: RunningTarget):
    ended = run_client(f"--address={target.address}", "--temperature=-1", "--max-tokens=0", PROMPT)
    assert (ended.stdout, ended.returncode) == ("", 1)
    lines = dict(line.split(": ", 1) for line in ended.stderr.splitlines())
    assert lines.keys() == {"sampling.temperature", "stop.max_tokens"}
    assert "at least 0" in lines["sampling.temperature"]
    assert "at least 1" in lines["stop.max_tokens"]


def test_ctrl_c_ends_the_generation_on_the_server_too(command: list[str], target: RunningTarget):
    options = [f"--address={target.address}", "--temperature=3", "--seed=2"]  # which goes on for thousands of tokens
    with subprocess.Popen(
        [*HEEDS_CTRL_C, *command, *options, PROMPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as client:
        assert client.stdout is not None
        assert client.stdout.read(1)
        with target.held():  # else the client may have printed all of them before it gets the signal
            (sequence,) = target.engine.scheduler.sequences
            client.send_signal(signal.SIGINT)
            _, errors = client.communicate(timeout=SECONDS)
    assert (client.returncode, errors) == (130, b"")
    target.assert_all_free()
    assert not sequence.is_finished


def test_only_given_options_are_sent(run_client: RunClient):
    with ScriptedServer() as server:
        ended = run_client("--address", server.address, PROMPT)
        run_client("--address", server.address, "--max-tokens", "1", "--temperature", "0", "--seed", "0", PROMPT)
    bare, full = server.requests
    assert ended.stdout == text_of(answer(list(PROMPT.encode()), DRAWN_SEED), is_whole=True) + "\n"
    assert bare.prompt == common_pb2.Prompt(text=PROMPT)
    assert not bare.sampling.ListFields()
    assert not bare.stop.ListFields()
    assert {field.name for field, _ in bare.output.ListFields()} <= {"prompt_token_ids"}  # which resuming needs
    assert full.sampling == common_pb2.SamplingParameters(temperature=0, seed=0)
    assert full.stop == common_pb2.StopConditions(max_tokens=1)


class Speculating(ScriptedServicer):
    """Ends with figures of a speculative generation, and with the last of its text."""

    def StreamGenerate(  # noqa: N802
        self, request: generation_pb2.StreamGenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.StreamGenerateResponse]:
        for event in super().StreamGenerate(request, context):
            if event.HasField("finished"):
                event.finished.text = HELD_TEXT
                event.finished.usage.completion_tokens = 101
                event.finished.timings.decode.FromMilliseconds(2500)
                event.finished.timings.first_token.FromMicroseconds(12_700)
                event.finished.speculation.MergeFrom(
                    common_pb2.SpeculationStats(passes=40, tokens_per_pass=2.53, predicted=160, accepted=61)
                )
                event.finished.reason = common_pb2.FINISH_REASON_STOP_STRING
            yield event


def test_the_last_text_and_speculation_figures_are_printed(run_client: RunClient):
    with ScriptedServer(servicer_type=Speculating) as server:
        ended = run_client("--address", server.address, PROMPT)
    whole = text_of(answer(list(PROMPT.encode()), DRAWN_SEED), is_whole=True)
    assert ended.stdout == whole + HELD_TEXT + "\n"
    assert ended.stderr == (
        "101 tokens · 40.0 tokens/s · first token after 13 ms · 2.53 tokens per pass · 38 % accepted"
        " · ended by stop string\n"
    )


def test_figures_that_the_server_lacks_are_left_out(run_client: RunClient):
    with ScriptedServer() as server:
        ended = run_client("--address", server.address, "--max-tokens", "1", PROMPT)
    assert ended.stderr == "1 token · 1.00 tokens per pass · no predictions · ended by max tokens\n"


class UnreadableServicer(ScriptedServicer):
    """Refuses with details that cannot be parsed."""

    def StreamGenerate(  # noqa: N802
        self, request: generation_pb2.StreamGenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.StreamGenerateResponse]:
        context.set_trailing_metadata((("grpc-status-details-bin", b"\xff" * 5),))
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not like this")


def test_details_that_cannot_be_read_hide_nothing(run_client: RunClient):
    with ScriptedServer(servicer_type=UnreadableServicer) as server:
        ended = run_client("--address", server.address, PROMPT)
    assert (ended.stdout, ended.returncode) == ("", 1)
    assert re.search("not like this|malformed grpc-status-details-bin", ended.stderr)  # as gRPC for Go has it
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(6, how="end"), "the server ended the stream early"),
        (Fault(6, how=grpc.StatusCode.RESOURCE_EXHAUSTED, details="no more of this"), "no more of this"),
    ],
)
def test_a_broken_stream_leaves_its_text_and_the_reason(
    run_client: RunClient, at_once: list[str], fault: Fault, words: str
):
    with ScriptedServer(fault) as server:
        ended = run_client("--address", server.address, *at_once, PROMPT)
    received = text_of(answer(list(PROMPT.encode()), DRAWN_SEED)[:6], is_whole=False)
    assert (ended.stdout, ended.returncode) == (received + "\n", 1)
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_server_that_is_not_there(run_client: RunClient, at_once: list[str]):
    ended = run_client("--address", f"127.0.0.1:{free_port()}", *at_once, PROMPT)
    assert (ended.stdout, ended.returncode) == ("", 1)
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", ["", "two prompts", "--seed=-1 x", "--max-tokens=1.5 x", "--temperature=warm x", "--tempo=1 x"]
)
def test_wrong_usage_is_reported_before_anything_is_sent(run_client: RunClient, arguments: str):
    ended = run_client(*arguments.split())
    assert (ended.stdout, ended.returncode) == ("", 2)
    assert "usage: " in ended.stderr
