"""compose.yaml, really built and run under podman: `make compose-smoke`."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider import Client, GenerateOptions, Result
from tests.containers.stack import SERVICES, Stack
from tests.harness.servers.server import wait_until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(1800)]

PROMPT = 'class Stack:\n    """A last-in, first-out stack."""\n\n    def __init__(self):\n'
# What the text repeats of itself would be predicted without a draft.
LONG = GenerateOptions(max_tokens=1200, temperature=0.7, seed=7, ignore_eos=True, lookup=False)
SHORT = GenerateOptions(max_tokens=64, temperature=0.7, seed=7, ignore_eos=True, lookup=False)


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    """A client on the host that neither retries nor resumes: it sees whatever goes wrong."""
    with Client(stack.address, max_retries=0) as client:
        yield client


def bits(result: Result) -> tuple[str, tuple[int, ...], str]:
    return result.text, result.token_ids, result.finish_reason


def wait_for_predictions(client: Client) -> None:
    """Return once the target has found its draft."""
    wait_until(lambda: client.generate(PROMPT, speculation="always", **SHORT).speculation.accepted)


def test_a_draft_that_is_killed_in_mid_stream_changes_no_byte(stack: Stack, client: Client) -> None:
    expected = client.generate(PROMPT, speculation="never", **LONG)
    assert len(expected.token_ids) == LONG["max_tokens"]
    wait_for_predictions(client)
    with client.stream(PROMPT, speculation="always", token_records=True, **LONG) as stream:
        chunks = iter(stream)
        next(chunk for chunk in chunks if any(token.predicted for token in chunk.tokens))
        stack.kill("draft")
        for _ in chunks:
            pass
    assert bits(stream.result) == bits(expected)
    assert stream.result.speculation.accepted > 0
    assert stream.result.speculation.draft_losses == 1
    alone = client.generate(PROMPT, speculation="always", **LONG)
    assert bits(alone) == bits(expected)
    assert alone.speculation.predicted == 0
    stack.start("draft")
    wait_for_predictions(client)
    again = client.generate(PROMPT, speculation="always", **LONG)
    assert bits(again) == bits(expected)
    assert again.speculation.accepted > 0


def test_a_target_that_is_stopped_lets_its_stream_finish(stack: Stack, client: Client) -> None:
    expected = client.generate(PROMPT, speculation="never", **LONG)
    with client.stream(PROMPT, speculation="never", **LONG) as stream, grpc.insecure_channel(stack.address) as channel:
        chunks = iter(stream)
        next(chunks)
        stop = stack.begin_stop("target")
        health = health_pb2_grpc.HealthStub(channel)
        serving = health_pb2.HealthCheckResponse.SERVING
        while (status := health.Check(health_pb2.HealthCheckRequest()).status) == serving:
            pass
        assert status == health_pb2.HealthCheckResponse.NOT_SERVING  # an answer: it still listens, for this stream
        for _ in chunks:
            pass
    assert bits(stream.result) == bits(expected)
    assert stop.wait(60) == 0
    assert stack.inspect("target", "State.ExitCode") == "0"


def test_outrider_generate_writes_from_the_host(stack: Stack) -> None:
    outrider = str(Path(sys.executable).with_name("outrider"))
    command = [outrider, "generate", "--address", stack.address, "--max-tokens", "64", "--temperature", "0", PROMPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, bool(done.stdout.strip())) == (0, True)


def test_the_gateway_serves_the_bytes_of_the_target(stack: Stack, client: Client) -> None:
    body = json.dumps({"prompt": PROMPT, **SHORT}).encode()
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"http://{stack.http_address}/v1/completions", body, headers), timeout=60) as answer:
        (choice,) = json.load(answer)["choices"]
    assert choice["text"] == client.generate(PROMPT, **SHORT).text


@pytest.mark.parametrize("service", ["target", "draft"])
def test_a_later_start_reads_the_packed_weights_of_the_volume(stack: Stack, service: str) -> None:
    wait_until(lambda: "packed weights kept in /cache/weights/" in stack.logs(service))
    stack.kill(service)
    stack.start(service)
    assert "weights read from /cache/weights/" in stack.logs(service)


def test_a_container_is_unprivileged_and_holds_only_its_service(stack: Stack) -> None:
    for service in SERVICES:
        assert stack.execute(service, "id", "-u").stdout.strip() == "10001"
        assert "CapEff:\t0000000000000000\n" in stack.execute(service, "cat", "/proc/self/status").stdout
        folders = ("/opt/outrider",) if service == "gateway" else ("/opt/outrider", "/models")
        for folder in folders:
            assert "Read-only file system" in stack.execute(service, "touch", f"{folder}/x").stderr
        for program in ("g++", "cmake", "pip"):
            assert stack.execute(service, "which", program).returncode == 1
        assert "No module named 'torch'" in stack.execute(service, "python", "-c", "import torch").stderr
