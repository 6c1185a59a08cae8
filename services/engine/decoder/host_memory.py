"""The memory of this host that the process may use: what there is, and what nobody else has."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

# What a container may use; version 2 of control groups, then version 1.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_TABLE = Path("/proc/meminfo")


def host_memory(limits: Iterable[Path] = _LIMITS) -> int:
    """Bytes that the machine has, or that a container's limit leaves of them, whatever is in use already."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([installed, *filter(None, map(_read_limit, limits))])


def free_memory(table: Path = _TABLE) -> int:
    """Bytes of them that the machine could give now, swap and what caches of files would give back included."""
    text = table.read_text(encoding="ascii") if table.exists() else ""
    free = {name: 1024 * int(kib) for name, kib in re.findall(r"^(MemAvailable|SwapFree): +(\d+) kB$", text, re.M)}
    return min(host_memory(), sum(free.values())) if "MemAvailable" in free else host_memory()


def _read_limit(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # there is no such group, or it has no limit, which is written "max"
        return None
