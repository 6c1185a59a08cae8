"""What holds for every test: no time is judged, and no log betrays prompts, answers, or the token of who asked."""

import logging
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.log_scan import LogScan, betrayals_in

# How fast examples are found and tested says something of the machine, and nothing of the code. They are the same in
# every run, so that none fails for what no change has to do with.
settings.register_profile("untimed", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# What a shell starts in the background ignores it, as would the commands of the tests that interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files of lengthy tests: the last to end keeps one worker busy while the others have nothing. Those
    of units, some of which change the clock, come before services that a whole session shares.
    """
    lengthy = {item.path for item in items if item.get_closest_marker("lengthy")}
    items.sort(key=lambda item: (item.path not in lengthy, "unit" not in item.path.parts))


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
