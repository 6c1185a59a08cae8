"""A reader who follows a plain request through the target opens few files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rpc.file_trace import FileTrace
from tests.rpc.requests import stream, stream_request
from tests.server import RunningTarget, target_server

MOST_FILES = 33


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
    trace.is_recording = True
    stream(traced_target, stream_request())
    trace.is_recording = False
    for number, (path, function) in enumerate(trace.entries.items(), start=1):
        print(f"{number:2} {path}: {function}")
    assert "target/generation/step.py" in trace.entries, "the engine thread is watched too"
    assert not any("vllm_contract" in path for path in trace.entries), "the other contract is for its own callers"
    assert len(trace.entries) <= MOST_FILES
