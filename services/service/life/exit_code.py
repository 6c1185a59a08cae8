"""ExitCode: the exit codes of a service's process."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Argparse exits with 2 for invalid options; a second signal of the same kind ends with 128 plus its number."""

    STOPPED = 0  # by SIGTERM or SIGINT
    NOT_STARTED = 1  # its message says why
    ENGINE_FAILED = 3
    ENGINE_HUNG = 4
