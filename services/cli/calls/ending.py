"""How a command that calls servers ends: an error becomes a message and an exit code."""

import sys
from collections.abc import Callable

from outrider import InvalidArgument, OutriderError, Unavailable
from outrider.servers.unreached import NOBODY
from services.cli.terminal import INTERRUPTED, UNREAD, Terminal

_REMEDY = "; start a target with `outrider up`"


def exit_code(command: str, act: Callable[[Terminal, Terminal], int]) -> int:
    """Call `act` and return its exit code, or the exit code of the error that ended it.

    `act` is given two terminals: one for the command's output and one for notes. Errors are also written to the latter.
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
    except Unavailable as error:
        err.error(f"outrider {command}: {error}{_REMEDY if str(error).startswith(NOBODY) else ''}")
        return 1
    except (OutriderError, OSError, ValueError) as error:
        err.error(f"outrider {command}: {error}")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
