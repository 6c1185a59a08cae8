"""The memory that this process may use, whatever is in use already."""

import os
from collections.abc import Iterable
from pathlib import Path

# What a container may use; version 2 of control groups, then version 1.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def host_memory(limits: Iterable[Path] = _LIMITS) -> int:
    """Bytes that the machine has, or that a container's limit leaves of them."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([installed, *filter(None, map(_read_limit, limits))])


def _read_limit(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # there is no such group, or it has no limit, which is written "max"
        return None
