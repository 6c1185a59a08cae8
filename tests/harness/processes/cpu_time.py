"""The CPU time of a process: by it a busy machine is like an idle one."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Seconds that the threads of a living process have computed together, to a hundredth or so."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


class UnhinderedClock:
    """Seconds that pass, but for those in which threads of some processes could have computed and waited for a core:
    where several waited at once, all of theirs.
    """

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self._of_threads: dict[Path, int] = {}  # nanoseconds
        self._waited = 0

    def __call__(self) -> float:
        now = time.monotonic()
        before, self._of_threads = self._of_threads, dict(self._look())
        self._waited += sum(each - before.get(thread, 0) for thread, each in self._of_threads.items())
        return now - self._waited / 1e9

    def _look(self) -> Iterator[tuple[Path, int]]:
        for pid in self._pids:
            with suppress(OSError):  # it has ended
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    with suppress(OSError):
                        yield thread, int((thread / "schedstat").read_text().split()[1])
