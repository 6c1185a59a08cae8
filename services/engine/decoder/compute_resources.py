"""ComputeResources: where a service computes, so that two of them can tell whether they are in each other's way."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ComputeResources:
    """A running machine, a device of it, the cores that its process may use, and how many threads compute there."""

    host: str  # tells a machine from others and nothing else of it; empty where that is not known
    device: str
    cores: frozenset[int]
    threads: int

    @classmethod
    def here(cls, *, device: str, threads: int) -> "ComputeResources":
        """The place of this process."""
        host = hashlib.blake2b(_BOOT_ID.read_bytes(), digest_size=8).hexdigest() if _BOOT_ID.exists() else ""
        return cls(host, device, frozenset(os.sched_getaffinity(0)), threads)

    def competes_with(self, other: "ComputeResources") -> bool:
        """Whether work at the one slows the other down: the same GPU, or too few cores for the threads of both."""
        if not self.host or self.host != other.host or self.device != other.device:
            return False
        if self.device != "cpu":
            return True
        is_apart = not self.cores & other.cores
        return not is_apart and self.threads + other.threads > len(self.cores | other.cores)
