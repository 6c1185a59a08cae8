"""entry: the `outrider` command, which Ctrl-C ends without a traceback at every moment."""

import os
import signal
import sys

_INTERRUPTED = 130  # as shells report a process that SIGINT ended


def main() -> int:
    """Run the command that the arguments name, and return its exit code."""
    is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heeded:  # modules that are only half loaded cannot be left by an exception
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    from services.cli import read_arguments

    arguments = read_arguments(sys.argv[1:])
    if is_heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code: int = arguments.run(arguments)
        return code
    except KeyboardInterrupt:
        return _INTERRUPTED
