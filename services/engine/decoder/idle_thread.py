"""in_idle_time: runs background work on a thread of the lowest priority."""

import os
import threading
from collections.abc import Generator
from contextlib import closing, suppress

_LAST_OF_ALL = 19  # the largest niceness: it runs only while a core is idle


def in_idle_time(steps: Generator[None]) -> threading.Thread:
    """Start a thread that runs the generator, and stops after a step when the process is about to end."""

    def run() -> None:
        with suppress(OSError):  # forbidden: then it runs at normal priority
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LAST_OF_ALL)
        with closing(steps):
            for _ in steps:
                if not threading.main_thread().is_alive():
                    return

    # Not a daemon, as it would be by default if started by one: a daemon in native code at exit aborts the process.
    thread = threading.Thread(target=run, name="idle time", daemon=False)
    thread.start()
    return thread
