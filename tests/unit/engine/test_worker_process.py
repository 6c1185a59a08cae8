"""A worker answers, or dies alone and soon; the next call finds another."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from services.engine.worker_process import WorkerError, WorkerLimits, WorkerProcess

pytestmark = pytest.mark.process

MIB = 1 << 20
LIMITS = WorkerLimits(cpu_seconds=0.5, seconds=60.0, memory=256 * MIB, answer_bytes=1 * MIB)


def worker() -> WorkerProcess:
    return WorkerProcess("tests.unit.scripted_worker", "setup", LIMITS)


def said(process: WorkerProcess, value: object) -> int:
    """The worker sends a value back; return its process id."""
    setup, echo, pid = process.call(["say", value])
    assert (setup, echo) == ("setup", value)
    return pid


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_one_process_gives_all_answers():
    process = worker()
    pids = {said(process, value) for value in (None, 1.5, "é\U0001f600", ["x"] * 1000, {"a": {}}, "x" * 500_000)}
    assert len(pids) == 1
    assert os.getpid() not in pids


@pytest.mark.parametrize(
    ("seconds", "question", "reason"),
    [
        (60.0, ["loop"], "it takes more than 0.5 s"),
        (0.2, ["sleep"], "it was ended, after 0.2 s at the latest"),
        (60.0, ["allocate", 300 * MIB], "it takes more than 256 MiB, or gives more than 1 MiB"),
        (60.0, ["give", 2 * MIB], "it takes more than 256 MiB, or gives more than 1 MiB"),
        (60.0, ["die", 9], "it died, with code 9"),
        (60.0, ["babble"], "but at most 1048576 may come"),
    ],
)
def test_a_call_that_has_no_answer_costs_the_worker_its_life(seconds, question, reason):
    process = worker()
    first = said(process, 1)
    process._limits = replace(LIMITS, seconds=seconds)  # not before: a start may take longer
    with pytest.raises(WorkerError, match=reason):
        process.call(question)
    process._limits = LIMITS
    assert not is_running(first)
    assert said(process, 2) != first


def test_calls_from_many_threads_get_their_own_answers():
    process = worker()
    with ThreadPoolExecutor(8) as pool:
        pids = set(pool.map(lambda value: said(process, value), range(200)))
    assert len(pids) == 1


def test_a_worker_ends_with_its_owner():
    process = worker()
    pid = said(process, 1)
    del process
    assert not is_running(pid)


def test_a_worker_ends_when_the_process_that_made_it_is_gone():
    """Its standard input ends then, as when we close it."""
    process = worker()
    pid = said(process, 1)
    process._child.stdin.close()
    ended = threading.Thread(target=process._child.wait)
    ended.start()
    ended.join(60)
    assert not is_running(pid)


def test_a_worker_that_cannot_start_is_an_error():
    with pytest.raises(WorkerError, match=r"it died, with code 1|can(not)? be read"):
        WorkerProcess("tests.unit.no_such_worker", None, LIMITS).call(1)
