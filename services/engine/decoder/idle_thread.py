"""in_idle_time: work that nobody waits for, on a thread that every other one goes before."""

import os
import threading
from collections.abc import Generator
from contextlib import closing, suppress

_LAST_OF_ALL = 19  # as nice as can be: it has the time that nobody else wants


def in_idle_time(steps: Generator[None]) -> threading.Thread:
    """Start a thread that does the work step by step, and leaves it between two steps once the process is to end."""

    def run() -> None:
        with suppress(OSError):  # where that is forbidden, it goes beside the others
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LAST_OF_ALL)
        with closing(steps):
            for _ in steps:
                if not threading.main_thread().is_alive():
                    return

    # A daemon thread's child is a daemon too unless told, and one that is in native code at the end aborts the process.
    thread = threading.Thread(target=run, name="idle time", daemon=False)
    thread.start()
    return thread
