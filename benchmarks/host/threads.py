"""The processor time of a process and its children, by thread."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_NAMED = {"engine", "pass"}  # as services name their threads


def processor_times(name: str, pid: int) -> "Counter[str]":
    """Nanoseconds of each kind of thread so far, as `name/event loop`, and of each child process, by its own name."""
    times: Counter[str] = Counter()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended
            kind = (thread / "comm").read_text().strip()
            if int(thread.name) == pid:
                kind = "event loop"
            elif kind not in _NAMED:
                kind = "gRPC and others"
            times[f"{name}/{kind}"] += int((thread / "schedstat").read_text().split()[0])
    for child in _children(pid):
        with suppress(OSError):
            times += processor_times(Path(f"/proc/{child}/comm").read_text().strip(), child)
    return times


def _children(pid: int) -> Iterator[int]:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            yield from map(int, (thread / "children").read_text().split())
