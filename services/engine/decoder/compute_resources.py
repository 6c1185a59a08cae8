"""ComputeResources: the cores or GPU of a service, so that two services can tell whether they compete."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ComputeResources:
    """The machine since its boot, the device, the cores that the process may use, and its number of threads."""

    host: str  # an opaque id of the machine; "": not known
    device: str  # or several, with commas between
    cores: frozenset[int]
    threads: int

    @classmethod
    def here(cls, *, device: str, threads: int) -> "ComputeResources":
        """Return the resources of this process."""
        host = hashlib.blake2b(_BOOT_ID.read_bytes(), digest_size=8).hexdigest() if _BOOT_ID.exists() else ""
        return cls(host, device, frozenset(os.sched_getaffinity(0)), threads)

    def competes_with(self, other: "ComputeResources") -> bool:
        """Return whether both slow each other down: the same GPU, or too few cores for the threads of both."""
        shared = {*self.device.split(",")} & {*other.device.split(",")}
        if not self.host or self.host != other.host or not shared:
            return False
        if shared != {"cpu"}:
            return True
        is_apart = not self.cores & other.cores
        return not is_apart and self.threads + other.threads > len(self.cores | other.cores)
