"""give_back_freed_memory: returns freed memory to the system."""

import ctypes


def give_back_freed_memory() -> None:
    """Return memory that the C library would keep for later allocations, such as an unloaded model's, to the system.

    It takes milliseconds. It does nothing with a C library that has no such call.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
