"""The children of a process."""

from pathlib import Path


def child_processes(pid: int) -> list[int]:
    """Those that its main thread has started and that still are there."""
    return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
