"""The memory of this host that the process may use: in total, and free now; and the return of freed memory."""

import ctypes
import os
import re
from collections.abc import Iterable
from pathlib import Path

# The limits of a container, in version 2 of control groups and version 1.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_TABLE = Path("/proc/meminfo")


def host_memory(limits: Iterable[Path] = _LIMITS) -> int:
    """Return the bytes of memory of the machine, or the limit of the container; memory in use counts too."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([installed, *filter(None, map(_read_limit, limits))])


def free_memory(table: Path = _TABLE) -> int:
    """Return the bytes that can be allocated now, including swap and reclaimable file caches."""
    text = table.read_text(encoding="ascii") if table.exists() else ""
    free = {name: 1024 * int(kib) for name, kib in re.findall(r"^(MemAvailable|SwapFree): +(\d+) kB$", text, re.M)}
    return min(host_memory(), sum(free.values())) if "MemAvailable" in free else host_memory()


def _read_limit(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # there is no such group, or it has no limit: "max"
        return None


def give_back_freed_memory() -> None:
    """Return memory that the C library would keep for later allocations, such as an unloaded model's, to the system.

    It takes milliseconds. It does nothing with a C library that has no such call.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
