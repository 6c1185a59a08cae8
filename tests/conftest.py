"""What holds for every test: no log betrays what was asked or answered, nor who asked by which token."""

import logging
from collections.abc import Iterator

import pytest

from tests.log_scan import LogScan, betrayals_in


@pytest.fixture(scope="session")
def log_scan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogScan]:
    """Reads all that is logged in this process, and in the end the logs that service processes have left."""
    scan = LogScan()
    logging.getLogger().addHandler(scan)
    yield scan
    logging.getLogger().removeHandler(scan)
    assert betrayals_in(tmp_path_factory.getbasetemp()) == []


@pytest.fixture(autouse=True)
def _logs_betray_nothing(log_scan: LogScan) -> Iterator[None]:
    yield
    assert log_scan.take() == []
