"""python -m scripts.install OPTION…: pip install, with a line of progress while it compiles C++.

The whole output is in a file; its end is printed if pip fails. Only Python itself is needed.
"""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

_LOG = Path("build/install.log")
_STEP = re.compile(r"\[(\d+)/(\d+)\] (?:Building|Linking) .*?(\S+)$", re.MULTILINE)  # as Ninja writes it
_PACKAGE = re.compile(r"Collecting ([\w.-]+)")
_SHOWN_SECONDS = 10.0  # between lines where they cannot be overwritten
_TAIL = 40  # lines


def main() -> int:
    """Install; returns pip's exit code."""
    _LOG.parent.mkdir(exist_ok=True)
    print("Packages are installed, then C++ is compiled, which takes about five minutes on two cores.", flush=True)
    show = _progress(sys.stderr)
    command = [sys.executable, "-m", "pip", "install", "-v", *sys.argv[1:]]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with _LOG.open("w") as log, subprocess.Popen(command, **output) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            log.write(line)
            if state := _state(line):
                show(state)
    show("")
    if pip.returncode:
        last = _LOG.read_text().splitlines()[-_TAIL:]
        print(*last, f"all of the output is in {_LOG}", sep="\n", file=sys.stderr)
    return pip.returncode


def _state(line: str) -> str:
    """Return what pip is doing by a line of its output; "" if the line does not say it."""
    if step := _STEP.search(line):
        return f"compiling {step[1]} of {step[2]}: {Path(step[3]).name.removesuffix('.o')}"
    package = _PACKAGE.search(line)
    return f"installing packages: {package[1]}" if package else ""


def _progress(out: TextIO) -> Callable[[str], None]:
    """Return a function that shows a state: on a terminal over the last one, elsewhere as a line now and then."""
    began = shown = time.monotonic()

    def show(state: str) -> None:
        nonlocal shown
        now = time.monotonic()
        if out.isatty():
            out.write(f"\r\033[K{state and f'{state}  ({now - began:.0f} s)'}")
        elif state and now - shown >= _SHOWN_SECONDS:
            shown = now
            out.write(f"{state} ({now - began:.0f} s)\n")
        out.flush()

    return show


if __name__ == "__main__":
    sys.exit(main())
