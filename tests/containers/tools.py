"""The programs that run containers here, and how they are set up for a machine without systemd or spare limits."""

import os
import shutil
from pathlib import Path

PROGRAMS = ("podman", "runc", "debootstrap", "iptables", "catatonit")  # for what else is needed, podman speaks up
APT_PACKAGES = Path(__file__).with_name("apt-packages.txt").read_text().split()
# cgroupfs and the event file stand in for systemd; the limits need no CAP_SYS_RESOURCE to be set.
_CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=1024:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def complaint() -> str | None:
    """What keeps containers from running here, and what to do about it."""
    if os.geteuid() != 0:
        return "debootstrap and cgroups need root: run this as root"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if not missing:
        return None
    return (
        f"not found: {', '.join(missing)}; run `make compose-smoke-deps`, or: apt-get install {' '.join(APT_PACKAGES)}"
    )


def podman_environment(folder: Path) -> dict[str, str]:
    """The variables that podman is to see; its configuration is written into the folder."""
    configuration = folder / "containers.conf"
    configuration.write_text(_CONTAINERS_CONF)
    return {**os.environ, "CONTAINERS_CONF": str(configuration)}
