"""The grammar worker, but its trials have an hour: what ends one is what the test does."""

from unittest import mock

from services.engine.grammar import worker

SECONDS = 3600.0


def main(descriptor: int) -> None:
    """Serve as the worker does."""
    with mock.patch.multiple(worker, MAX_SECONDS=SECONDS, MAX_WAIT=SECONDS):
        worker.main(descriptor)
