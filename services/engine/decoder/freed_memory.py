"""give_back_freed_memory: what was freed goes back to the system."""

import ctypes


def give_back_freed_memory() -> None:
    """Give back at once what the C library would keep for later: matrices of a model that is gone.

    It takes milliseconds; nothing where the library has no such call.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
