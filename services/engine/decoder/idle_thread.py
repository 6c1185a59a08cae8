"""in_idle_time: work that nobody waits for, on a thread that every other one goes before."""

import os
import threading
from collections.abc import Callable

_LAST_OF_ALL = 19  # as nice as can be: it has the time that nobody else wants


def in_idle_time(work: Callable[[], None]) -> threading.Thread:
    """Start a thread that does the work, and that ends with the process, whatever it is at."""

    def run() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LAST_OF_ALL)
        work()

    thread = threading.Thread(target=run, name="idle time", daemon=True)
    thread.start()
    return thread
