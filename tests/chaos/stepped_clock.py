"""SteppedClock: the wall clock of one process, which may jump while the clock that measures spans of time goes on."""

import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")


class SteppedClock:
    """Works by a library that is loaded into the process, and a file that says by how much the clock is wrong."""

    def __init__(self, folder: Path) -> None:
        self._file, library = folder / "clock", folder / "stepped_clock.so"
        self.step(0)
        command = ["c++", "-x", "c", "-shared", "-fPIC", "-O1", str(_SOURCE), "-o", str(library), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
        self.wrapper = ("env", f"LD_PRELOAD={library}", f"STEPPED_CLOCK={self._file}")
        """What goes before the command of a process that is to have this clock."""

    def step(self, seconds: int) -> None:
        """Let the clock be wrong by so much, forwards or back."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("<q", seconds))
