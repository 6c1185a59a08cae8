"""A reader who follows a plain request through the target opens few files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.file_trace import FileTrace
from tests.rpc.harness.requests import stream, stream_request

MOST_FILES = 47


@pytest.fixture
def trace() -> Iterator[FileTrace]:
    trace = FileTrace()
    yield trace
    trace.close()


@pytest.fixture
def traced_target(trace: FileTrace, model: Path) -> Iterator[RunningTarget]:
    """A target whose every thread is watched."""
    with target_server(model) as running:
        yield running


def test_a_plain_request_enters_few_files(trace: FileTrace, traced_target: RunningTarget) -> None:
    """A short text that asks for nothing but tokens, of a target without predictors; the files are printed in order."""
    stream(traced_target, stream_request())
    traced_target.assert_all_free()
    recorded = [_record(trace, traced_target) for _ in range(3)]
    entries = {path: function for path, function in recorded[0].items() if all(path in each for each in recorded)}
    for number, (path, function) in enumerate(entries.items(), start=1):
        print(f"{number:2} {path}: {function}")
    assert "target/generation/step.py" in entries, "the engine thread is watched too"
    others = ("vllm_contract", "openengine", "contracts")
    assert not any(name in path for path in entries for name in others), "contracts are for their own callers"
    assert len(entries) <= MOST_FILES


def _record(trace: FileTrace, target: RunningTarget) -> dict[str, str]:
    """What one request enters, and what goes on beside it: that is not there every time."""
    trace.entries.clear()
    trace.is_recording = True
    stream(target, stream_request())
    trace.is_recording = False
    target.assert_all_free()
    return dict(trace.entries)
