"""few_processes: for the conftest of tests whose servers are inside the test's own process, and start few others.

Each of these costs a quarter of a second of imports, or more.
"""

import functools
import json
from collections.abc import Iterator
from unittest import mock

import pytest

from services.engine.grammar.process import GrammarProcess
from services.engine.worker_process import WorkerLimits, WorkerProcess
from services.target.prompt import chat_template


@pytest.fixture(scope="package", autouse=True)
def few_processes() -> Iterator[None]:
    """Servers have one process for the same chat template; one that tries grammars comes with a server's first one."""
    with (
        mock.patch.object(GrammarProcess, "begin", return_value=None),  # `try_out` starts it where it does not run
        mock.patch.object(chat_template, "WorkerProcess", _worker_of),
    ):
        yield


def _worker_of(module: str, setup: object, limits: WorkerLimits) -> WorkerProcess:
    return _shared_worker(module, json.dumps(setup), limits)


@functools.lru_cache(maxsize=4)
def _shared_worker(module: str, setup: str, limits: WorkerLimits) -> WorkerProcess:
    return WorkerProcess(module, json.loads(setup), limits)
