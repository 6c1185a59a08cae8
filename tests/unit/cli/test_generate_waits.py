"""`outrider generate` waits for a server whose model is loading, which may take minutes, and reports that it does."""

# ruff: noqa: N802

import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthServicer

from services.cli import main
from services.cli.calls import readiness
from services.cli.calls.readiness import Readiness
from services.cli.terminal import Terminal
from services.service.loading_health import DETAIL
from tests.harness.servers.scripted_server import Event, Request, ScriptedServer, ScriptedServicer, answer, text_of

TEXT = text_of(answer([*b"Hi"], 5), is_whole=True)


class Screen(io.StringIO):
    """A screen, which is a terminal."""

    def isatty(self) -> bool:
        return True


class LoadingServicer(ScriptedServicer):
    """Refuses calls before the model is loaded."""

    def __init__(self, *script: object) -> None:
        super().__init__(*script)
        self.is_loaded = threading.Event()

    def StreamGenerate(self, request: Request, context: grpc.ServicerContext) -> Iterator[Event]:
        if not self.is_loaded.is_set():
            context.abort(grpc.StatusCode.UNAVAILABLE, "the model is still loading")
        yield from super().StreamGenerate(request, context)


class LoadingHealth(HealthServicer):
    """Reports NOT_SERVING until it was asked so often, and SERVING from then on."""

    def __init__(self, num_checks: int, num_silent: int = 0) -> None:
        self._num_checks, self._num_silent = num_checks, num_silent
        self.is_loaded = threading.Event()

    def Check(self, request: HealthCheckRequest, context: grpc.ServicerContext) -> HealthCheckResponse:
        if self._num_silent > 0:
            self._num_silent -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "not there yet")
        self._num_checks -= 1
        if self._num_checks >= 0:
            context.set_trailing_metadata(((DETAIL, "half of it is loaded"),))
            return HealthCheckResponse(status=HealthCheckResponse.NOT_SERVING)
        self.is_loaded.set()
        return HealthCheckResponse(status=HealthCheckResponse.SERVING)


@contextmanager
def loading_server(num_checks: int, num_silent: int = 0) -> Iterator[str]:
    """The address of a server that has loaded its model once its health was asked so often."""
    health = LoadingHealth(num_checks, num_silent)
    with ScriptedServer(servicer_type=LoadingServicer, health=health) as server:
        server.servicer.is_loaded = health.is_loaded
        yield server.address


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(readiness, "_NOTE_SECONDS", 0.05)
    monkeypatch.setattr(readiness, "_RETRIES", 1)


def test_generate_waits_while_the_model_is_loading(capsys: pytest.CaptureFixture[str]) -> None:
    with loading_server(50) as address:
        assert main(["generate", "--address", address, "--seed", "5", "Hi"]) == 0
    said = capsys.readouterr()
    assert said.out == TEXT + "\n"
    first, second, *_ = said.err.splitlines()
    assert first == f"{address} does not serve yet: its model is loading; waiting for up to 600 s"
    assert second.startswith(f"{address} does not serve yet, after ")


def test_generate_waits_for_a_server_that_starts_late(capsys: pytest.CaptureFixture[str]) -> None:
    """At first there is no server; then it is loading, for longer than the client tries."""
    with loading_server(3, num_silent=1) as address:
        assert main(["generate", "--address", address, "--seed", "5", "Hi"]) == 0
    assert capsys.readouterr().out == TEXT + "\n"


def test_generate_does_not_wait_where_another_server_serves(capsys: pytest.CaptureFixture[str]) -> None:
    with loading_server(1000) as loading, loading_server(0) as serving:
        assert main(["generate", "--address", loading, "--address", serving, "--seed", "5", "Hi"]) == 0
    said = capsys.readouterr()
    assert said.out == TEXT + "\n"
    assert "does not serve" not in said.err


@pytest.mark.parametrize("option", [["--no-wait"], ["--wait", "0"]])
def test_generate_fails_at_once_without_waiting_if_asked_to(
    capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    with loading_server(100_000) as address:
        assert main(["generate", "--address", address, *option, "Hi"]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"outrider generate: {address} does not serve yet: half of it is loaded\n")


def test_a_terminal_has_one_line_of_progress_that_is_erased() -> None:
    screen = Screen()
    with loading_server(20) as address:
        assert Readiness([address], None, Terminal(screen), seconds=60).wait()
    said, *lines = screen.getvalue().split("\r\033[K")
    assert said.endswith("waiting for up to 60 s\033[0m\n")
    waits = re.escape(f"\033[2m{address} does not serve yet, after ")
    told = re.compile(waits + r"\d+ s: half of it is loaded\x1b\[0m")
    assert [line for line in lines if not told.fullmatch(line)] == [""]


def test_generate_gives_up_after_the_given_time(capsys: pytest.CaptureFixture[str]) -> None:
    with loading_server(100_000) as address:
        assert main(["generate", "--address", address, "--wait", "0.2", "Hi"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith(f"outrider generate: {address} does not serve yet, after waiting for ")


def test_generate_does_not_wait_for_an_absent_server(capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer() as server:
        address = server.address
    assert main(["generate", "--address", address, "Hi"]) == 1
    assert "does not serve" not in capsys.readouterr().err


def test_a_negative_wait_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--wait", "-1", "Hi"]) == 1
    assert capsys.readouterr().err == "outrider generate: --wait must be at least 0 seconds, not -1\n"
