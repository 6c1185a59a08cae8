"""Servers inside the test's own process that start few others: each costs a quarter of a second of imports, or more."""

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from services.engine.grammar.process import GrammarProcess
from services.engine.worker_process import WorkerLimits, WorkerProcess
from services.target.prompt import chat_template


@contextmanager
def few_processes() -> Iterator[None]:
    """Servers have one process for the same chat template; one that tries grammars comes with a server's first one."""
    with (
        mock.patch.object(GrammarProcess, "begin", return_value=None),  # `compile` starts it where it does not run
        mock.patch.object(chat_template, "WorkerProcess", _worker_of),
    ):
        yield


def _worker_of(module: str, setup: object, limits: WorkerLimits) -> WorkerProcess:
    return _shared_worker(module, json.dumps(setup), limits)


@functools.lru_cache(maxsize=4)
def _shared_worker(module: str, setup: str, limits: WorkerLimits) -> WorkerProcess:
    return WorkerProcess(module, json.loads(setup), limits)
