"""`outrider admin`, as operators type it."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from outrider.v1 import admin_pb2
from services import cli
from tests.harness.servers.server import RunningTarget, wait_until
from tests.rpc.harness.administered import administered_target
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.requests import stream, stream_request

Admin = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def administered(model: Path) -> Iterator[RunningTarget]:
    with administered_target(model) as (target, _):
        yield target


@pytest.fixture
def admin(administered: RunningTarget, capsys: pytest.CaptureFixture[str]) -> Admin:
    """Runs one subcommand, and returns its exit code and what it printed."""

    def run(action: str, *arguments: str) -> tuple[int, str, str]:
        code = cli.main(["admin", action, "--address", administered.server.admin.address, *arguments])
        return code, *capsys.readouterr()

    return run


def test_status_prints_the_state_of_the_service(administered: RunningTarget, admin: Admin) -> None:
    stream(administered, stream_request())
    code, out, err = admin("status")
    assert (code, err) == (0, "")
    told = {line[:30].strip(): line[31:] for line in out.splitlines()[1:]}
    assert out.startswith("llama")
    assert " serves\n" in out
    assert told["sequences"] == "0 running, 0 waiting, 0 preemptions"
    assert told["KV blocks"].startswith("64 of ")
    assert "64 free" in told["KV blocks"]
    assert int(told["generated"].split()[0]) >= 24
    assert told["max-queue"] == "256"
    assert told["log level"] in ("warning", "info")


def test_drain_and_undrain(administered: RunningTarget, admin: Admin) -> None:
    assert admin("drain", "--wait") == (0, "drained; 0 left\n", "")
    assert "refuses: the server is drained" in admin("status")[1]
    assert administered.health() == "NOT_SERVING"
    assert admin("undrain") == (0, "served again\n", "")
    assert administered.health() == "SERVING"


def test_a_request_is_listed_and_ended(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predictor = GatePredictor()
    with administered_target(model, predictor=predictor) as (target, _):
        predictor.gate.clear()
        call = target.stub.StreamGenerate(stream_request(request_id="one"))
        next(call)
        address = ["--address", target.server.admin.address]
        assert cli.main(["admin", "requests", *address]) == 0
        assert re.fullmatch(
            r"one  \S+  runs  \S+ s \(\S+ s queued\)  \d+ prompt \+ \d+ tokens  \d+ blocks\n", said(capsys)
        )
        assert cli.main(["admin", "cancel", *address, "another"]) == 1
        assert said(capsys) == "no request has that id\n"
        assert cli.main(["admin", "cancel", *address, "one"]) == 0
        assert said(capsys) == "1 cancelled\n"
        predictor.gate.set()
        with pytest.raises(grpc.RpcError, match="cancelled by those who run the server"):
            list(call)
        assert cli.main(["admin", "requests", *address]) == 0
        wait_until(lambda: not target.engine.scheduler.sequences)


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_limits_are_changed_and_printed(admin: Admin) -> None:
    code, out, _ = admin("limits", "--max-queue", "12", "--reader-timeout", "7.5")
    assert code == 0
    assert dict(line.split() for line in out.splitlines()) == {
        "max-queue": "12",
        "max-waiting-tokens": "262144",
        "max-text-calls": "64",
        "max-streams-per-caller": "70",
        "reader-timeout": "7.5",
    }
    code, _, err = admin("limits", "--reader-timeout", "0")
    assert (code, "reader_timeout is 0" in err) == (1, True)
    assert admin("limits", "--max-queue", "-1")[0] == 1
    assert admin("limits", "--max-queue", "256", "--reader-timeout", "60")[0] == 0


def test_drafts_are_added_and_removed(admin: Admin) -> None:
    code, out, _ = admin("add-draft", "127.0.0.1:1")
    assert code == 0
    assert out.split()[:2] == ["draft", "127.0.0.1:1"]
    assert "linked" not in out.split()
    assert admin("remove-draft", "127.0.0.1:1") == (0, "", "")
    assert "INVALID_ARGUMENT" in admin("remove-draft", "127.0.0.1:1")[2]


def test_flush_cache_and_reload_print_their_results(administered: RunningTarget, admin: Admin) -> None:
    stream(administered, stream_request([3, 4, 5] * 30))
    assert admin("flush-cache")[1].endswith("blocks forgotten\n")
    assert admin("flush-cache")[1] == "0 blocks forgotten\n"
    assert admin("reload") == (0, "reloaded\n", "")


def test_a_server_that_does_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["admin", "status", "--address", "127.0.0.1:1"]) == 1
    assert "outrider admin: UNAVAILABLE: " in capsys.readouterr().err


def test_every_method_has_a_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["admin", "--help"])
    methods = admin_pb2.DESCRIPTOR.services_by_name["AdminService"].methods
    assert capsys.readouterr().out.count("\n    ") >= len(methods)


def test_top_reads_metrics_over_rpc(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a target that serves no metrics to Prometheus."""
    monkeypatch.setenv("COLUMNS", "160")
    predictor = GatePredictor()
    with administered_target(model, predictor=predictor) as (target, _):
        predictor.gate.clear()
        call = target.stub.StreamGenerate(stream_request())
        next(call)
        assert cli.main(["top", "--address", target.server.admin.address, "--interval", "0.1", "--once"]) == 0
        predictor.gate.set()
        list(call)
    shown = capsys.readouterr().out
    assert re.search(r"ipv4:127\.0\.0\.1 *\W+1 running, 0 waiting", shown)
    assert re.search(r"used +cached +empty", shown)
    assert cli.main(["top", "--address", "127.0.0.1:1", "--once"]) == 1
    assert capsys.readouterr().err.startswith("outrider top: no metrics at 127.0.0.1:1: ")
