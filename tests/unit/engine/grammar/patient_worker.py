"""The grammar worker with an hour for each trial, so that only the test ends one."""

from unittest import mock

from services.engine.grammar import worker

SECONDS = 3600.0


def main(descriptor: int) -> None:
    """Serve as the worker does."""
    with mock.patch.multiple(worker, MAX_SECONDS=SECONDS, MAX_WAIT=SECONDS):
        worker.main(descriptor)
