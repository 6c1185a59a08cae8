"""ExitCode: what a service's process ends with."""

from enum import IntEnum


class ExitCode(IntEnum):
    """2 is argparse's, for options that are none; a signal that comes again ends a process with 128 and its number."""

    TOLD_TO = 0  # by SIGTERM or SIGINT
    NOT_STARTED = 1  # its message says why
    ENGINE_FAILED = 3
    ENGINE_HUNG = 4
