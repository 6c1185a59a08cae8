"""take_cache_memory: commits the KV cache's memory in idle time, before a sequence has to wait for it."""

import os
import threading
from collections.abc import Generator
from contextlib import closing, suppress
from weakref import ref

from services.engine.decoder.host_memory import give_back_freed_memory
from services.engine.decoder.native import Decoder

_BLOCKS_AT_ONCE = 512  # a low-priority thread that takes the GIL often would slow down the others
_LAST_OF_ALL = 19  # the largest niceness: it runs only while a core is idle


def take_cache_memory(decoder: Decoder) -> Generator[None]:
    """Commit the memory of all blocks, in the order in which sequences get them, some blocks in each step.

    The system clears each page when it is first written, which takes seconds for gigabytes. A pass that writes a block
    first waits only for that block's pages. It stops if the decoder is unloaded meanwhile, and releases its memory.
    """
    return _take(ref(decoder), decoder.num_blocks)


def _take(found: "ref[Decoder]", num_blocks: int) -> Generator[None]:
    for first in range(0, num_blocks, _BLOCKS_AT_ONCE):
        if (decoder := found()) is None:  # this held the last reference
            give_back_freed_memory()
            return
        decoder.commit_cache(first, min(_BLOCKS_AT_ONCE, num_blocks - first))
        del decoder
        yield


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
