"""Keys: waits for a key of the terminal, without a line of input around it."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def waiting_for(key: str) -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits at most so many seconds for a key, and returns whether it was pressed.

    Without a terminal it only waits.
    """
    if not sys.stdin.isatty():
        yield _never
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def wait(seconds: float) -> bool:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([terminal], [], [], left)[0] and key.encode() in os.read(terminal, 64):
                return True
        return False

    try:
        tty.setcbreak(terminal)
        yield wait
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _never(seconds: float) -> bool:
    time.sleep(seconds)
    return False
