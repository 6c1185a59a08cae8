"""How a command that calls servers ends: what went wrong is told in its own words, and is an exit code."""

import sys
from collections.abc import Callable

from outrider import InvalidArgument, OutriderError
from services.cli.terminal import INTERRUPTED, UNREAD, Terminal


def exit_code(command: str, act: Callable[[Terminal, Terminal], int]) -> int:
    """Act, and return its exit code, or that of what ended it.

    `act` gets where a command writes, and where it tells of itself; the latter tells what went wrong too.
    """
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    try:
        return act(out, err)
    except InvalidArgument as error:
        err.refusal(error)
        return 1
    except BrokenPipeError:
        out.discard()
        return UNREAD
    except (OutriderError, OSError, ValueError) as error:
        err.error(f"outrider {command}: {error}")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
