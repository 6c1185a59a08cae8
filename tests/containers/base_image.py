"""The base image: a Debian with Python, made by debootstrap where no registry of images can be reached."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

BASE_IMAGE = "localhost/outrider-smoke-base:bookworm"
_SUITE = "bookworm"
_PACKAGES = "ca-certificates,libpython3-dev,python3,python3-venv"  # what the official Python image has, too


def ensure_base_image(folder: Path, environment: Mapping[str, str]) -> None:
    """Make the image unless podman has it already, which takes a minute; the folder is for what lies in between."""
    if subprocess.run(["podman", "image", "exists", BASE_IMAGE], env=environment, check=False).returncode == 0:
        return
    system, archive = folder / "system", folder / "system.tar"
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(system)], env=environment, check=True
    )
    subprocess.run(["tar", "-C", str(system), "-cf", str(archive), "."], check=True)
    subprocess.run(["podman", "import", "--quiet", str(archive), BASE_IMAGE], env=environment, check=True)
