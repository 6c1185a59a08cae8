"""The processor seconds of a run of pytest by folder and file, and the budget of `make test`.

Seconds are those of the workers and of each process that they start and wait for, as `time` reports them.
"""

import hashlib
import os
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BUDGET = Path(__file__).with_name("processor_budget.toml")
COLLECTION = "collection and imports"
_FILES = 50  # of the table, those that take most
_PLUGIN = "outrider-processor-times"
_ROUNDS = 3  # of the yardstick; the fastest one counts


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --times, the table, and --budget, the last line."""
    group = parser.getgroup("processor times")
    group.addoption("--times", action="store_true", help="print the processor seconds of folders and files")
    group.addoption("--budget", action="store_true", help=f"compare a whole run with {BUDGET.name}")


def pytest_configure(config: pytest.Config) -> None:
    """Measure in the controller and in each worker."""
    config.pluginmanager.register(ProcessorTimes(config), _PLUGIN)


class ProcessorTimes:
    """Measures the phases of each test in the worker, and adds up in the controller what the workers report."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: defaultdict[str, float] = defaultdict(float)  # by file
        self._workers = 0.0
        self._last = 0.0

    def pytest_runtestloop(self) -> None:
        """Begin after the collection."""
        self._last = _processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add what has passed since the last report to this one, which xdist sends to the controller."""
        report = yield
        now = _processor_seconds()
        report.processor_seconds = now - self._last  # type: ignore[attr-defined]
        self._last = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a phase of a test to its file."""
        self._seconds[report.nodeid.partition("::")[0]] += getattr(report, "processor_seconds", 0.0)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Report what a worker has taken in all."""
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_PLUGIN] = _processor_seconds()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Count a worker that has ended; one that has crashed reports nothing."""
        self._workers += getattr(node, "workeroutput", {}).get(_PLUGIN, 0.0)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was asked for."""
        total = self._workers or _processor_seconds()
        seconds = {**self._seconds, COLLECTION: total - sum(self._seconds.values())}
        if self._config.getoption("times"):
            terminalreporter.section("processor seconds")
            for line in table_of(seconds):
                terminalreporter.write_line(line)
        if self._config.getoption("budget"):
            for line in verdict(folders_of(seconds), _yardstick_seconds(), tomllib.loads(BUDGET.read_text())):
                terminalreporter.write_line(line)


def folders_of(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each folder two levels deep: of tests/unit/engine, say, with all that is below it."""
    folders: defaultdict[str, float] = defaultdict(float)
    for file, taken in seconds.items():
        folders["/".join(Path(file).parts[:-1][:3]) or file] += taken
    return folders


def table_of(seconds: Mapping[str, float]) -> list[str]:
    """Return a line for each folder and for the files that took most."""
    folders = _most_first(folders_of(seconds))
    rows = [("total", sum(seconds.values())), *folders, *_most_first(seconds)[:_FILES]]
    return [f"{taken:8.1f}  {name}" for name, taken in rows]


def _most_first(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: -item[1])


def verdict(folders: Mapping[str, float], yardstick: float, budget: Mapping[str, float]) -> list[str]:
    """Return a warning that names the folders beyond their budget if their sum is, and the line with that sum."""
    multiples = {folder: taken / yardstick for folder, taken in folders.items()}
    total, allowed = sum(multiples.values()), sum(budget.values())
    line = (
        f"{sum(folders.values()):.0f} processor seconds: {total:.0f} times the yardstick of {yardstick:.2f} s; "
        f"{allowed:.0f} times in {BUDGET.name}"
    )
    if total <= allowed:
        return [line]
    grown = {name: multiple for name, multiple in multiples.items() if multiple > budget.get(name, 0)}
    worst = sorted(grown, key=lambda name: budget.get(name, 0) - grown[name])
    named = ", ".join(f"{name} {grown[name]:.0f} (budget {budget.get(name, 0):.0f})" for name in worst)
    return [f"warning: the tests take more processor time than before: {named}", line]


def _processor_seconds() -> float:
    """User and system time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _yardstick_seconds() -> float:
    """Time a fixed piece of work, as the tests have it: Python's objects, bytes, and products of matrices."""
    return min(_timed_round() for _ in range(_ROUNDS))


def _timed_round() -> float:
    began = time.process_time()
    counts = Counter(str(number % 1000) for number in range(600_000))
    digest = hashlib.sha256(bytes(64 << 20)).digest()
    matrix = np.arange(1 << 18, dtype=np.float32).reshape(512, 512) % 7
    for _ in range(20):
        matrix = (matrix @ matrix) % 7
    seconds = time.process_time() - began
    assert (len(counts), len(digest), matrix.shape) == (1000, 32, (512, 512))
    return seconds
