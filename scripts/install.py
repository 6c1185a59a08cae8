"""python -m scripts.install OPTION…: pip install, with a line of progress while it compiles C++.

The whole output is in a file; its end is printed if pip fails. Only Python itself is needed.
"""

import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

_LOG = Path("build/install.log")
_STEP = re.compile(r"\[(\d+)/(\d+)\] (?:Building|Linking) .*?(\S+)$", re.MULTILINE)  # as Ninja writes it
_PACKAGE = re.compile(r"Collecting ([\w.-]+)")
_CUDA = re.compile(r"-- (CUDA device: .+)")
_SHOWN_SECONDS = 10.0  # between lines where they cannot be overwritten
_TAIL = 40  # lines


def main() -> int:
    """Install; returns pip's exit code."""
    print("Packages are installed, then C++ is compiled, which takes about five minutes on two cores.", flush=True)
    return run_pip("install", *sys.argv[1:])


def run_pip(command_name: str, *options: str) -> int:
    """Run a command of pip that may compile C++, with a line of progress; returns pip's exit code."""
    _LOG.parent.mkdir(exist_ok=True)
    progress = _Progress(sys.stderr)
    command = [sys.executable, "-m", "pip", command_name, "-v", *options]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with _LOG.open("w") as log, subprocess.Popen(command, **output) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            log.write(line)
            if cuda := _CUDA.search(line):
                progress.tell(cuda[1])
            elif state := _state(line):
                progress.show(state)
    progress.end()
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


class _Progress:
    """Shows a state: on a terminal over the last one, with seconds that go on; elsewhere as a line now and then."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._state = ""
        self._began = self._shown = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        if out.isatty():
            threading.Thread(target=self._tick, daemon=True).start()

    def show(self, state: str) -> None:
        """Show a state in place of the last one."""
        with self._lock:
            self._state = state
            now = time.monotonic()
            if self._out.isatty():
                self._draw()
            elif now - self._shown >= _SHOWN_SECONDS:
                self._shown = now
                self._write(f"{state} ({now - self._began:.0f} s)\n")

    def tell(self, line: str) -> None:
        """Write a line that stays."""
        with self._lock:
            self._write(f"\r\033[K{line}\n" if self._out.isatty() else f"{line}\n")

    def end(self) -> None:
        """Take the last state away."""
        self._ended.set()
        if self._out.isatty():
            self.show("")

    def _tick(self) -> None:
        while not self._ended.wait(1):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        seconds = time.monotonic() - self._began
        self._write(f"\r\033[K{self._state and f'{self._state}  ({seconds:.0f} s)'}")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


if __name__ == "__main__":
    sys.exit(main())
