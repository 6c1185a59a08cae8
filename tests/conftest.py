"""Rules for every test: no time is judged, and no log contains prompts, answers, or tokens of callers."""

import gc
import logging
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.harness.further import covering_choice, key_of
from tests.harness.log_scan import LogScan, betrayals_in

# How fast examples are found and tested depends on the machine, not on the code. They are the same in
# every run, so that none fails for what no change has to do with.
# `make matrix` tries ten times as many.
settings.register_profile(
    "untimed", max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("many", settings.get_profile("untimed"), max_examples=400)
settings.load_profile("untimed")

# What a shell starts in the background ignores it, as would the commands of the tests that interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_COVERED = {"e2e", "clients"}

gc.disable()  # until all tests are collected: to look through so many live objects again and again takes half the time


def pytest_collection_finish() -> None:
    """Collect garbage from now on, but never look through what collection has made.

    The loggers of torch pass to the root's, so that pytest need not listen to each in each part of each test.
    """
    gc.freeze()
    gc.enable()
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.propagate = True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what only `make matrix` runs, and put the rest in order."""
    _leave_out_combinations(items)
    _sort(items)


def _leave_out_combinations(items: list[pytest.Item]) -> None:
    """Of tests of whole services with several parameters, keep each value of each parameter once at least."""
    covered = [item for item in items if isinstance(item, pytest.Function) and not _COVERED.isdisjoint(item.path.parts)]
    combinations: dict[tuple[Path, str], list[pytest.Function]] = defaultdict(list)
    for item in covered:
        if hasattr(item, "callspec") and not item.get_closest_marker("exhaustive"):
            combinations[item.path, item.originalname].append(item)
    for alternatives in combinations.values():
        values = [{(name, key_of(value)) for name, value in item.callspec.params.items()} for item in alternatives]
        chosen = covering_choice(values)
        for index, item in enumerate(alternatives):
            if index not in chosen:
                item.add_marker(pytest.mark.exhaustive)


def _sort(items: list[pytest.Item]) -> None:
    """Run the files of lengthy tests first, so that no worker is left with a long test at the end. Those of units
    come before services that a whole session shares: some change the clock.
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
