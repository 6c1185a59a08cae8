"""The children of a process, and whether they have ended."""

from contextlib import suppress
from pathlib import Path


def child_processes(pid: int, module: str = "") -> list[int]:
    """Those that are still there and, if a module is given, whose command names it."""
    found: list[int] = []
    with suppress(FileNotFoundError):  # one that has just ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError):
                found += map(int, (thread / "children").read_text().split())
    return [child for child in found if module in _command(child)]


def _command(pid: int) -> str:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def has_ended(pid: int) -> bool:
    """Whether there is no such process, or only what its parent has not taken note of."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
