"""GBNF: grammars as llama.cpp and xgrammar write them, also called EBNF, put into llguidance's Lark."""

import asyncio
import re
from typing import Any

from llguidance.gbnf_to_lark import gbnf_to_lark

from services.engine.worker_process import WorkerError, WorkerLimits, WorkerProcess, serve
from services.service.errors import InvalidRequestError, Violation
from services.service.limits import LIMITS

_RULE = re.compile(r"^[ \t]*[\w-]+\s*::=", re.MULTILINE)
_LIMITS = WorkerLimits(cpu_seconds=0.5, seconds=10.0, memory=512 << 20, answer_bytes=1 << 20)
_MOST_LETTERS = 200  # of what the library says


class GbnfReader:
    """Reads one grammar at a time, in a process of its own: the library takes the square of some grammars' lengths."""

    def __init__(self) -> None:
        self._worker: WorkerProcess | None = None  # once one is needed
        self._lock = asyncio.Lock()

    async def to_lark(self, text: str) -> str:
        """The grammar in Lark, which it may be already; one that is too long for any stays as it is.

        Raises InvalidRequestError for what is no GBNF.
        """
        if len(text.encode()) > LIMITS.max_grammar_bytes or not _RULE.search(text):
            return text
        async with self._lock:
            match await asyncio.to_thread(self._ask, text):
                case {"lark": str(lark)}:
                    return lark
                case {"problem": str(problem)}:
                    raise _refusal(problem[:_MOST_LETTERS])
        raise _refusal("it was not understood")

    def _ask(self, text: str) -> object:
        try:
            self._worker = self._worker or WorkerProcess(__name__, None, _LIMITS)
            return self._worker.call(text)
        except WorkerError as error:
            return {"problem": str(error)}


def main() -> None:
    """Be the process."""
    serve(lambda _: _convert)


def _convert(text: Any) -> object:  # noqa: ANN401 - a text, as JSON has it
    try:
        return {"lark": gbnf_to_lark(text)}
    except MemoryError:
        raise
    except Exception as error:  # the library raises whatever it stumbles over
        return {"problem": str(error) or type(error).__name__}


def _refusal(problem: str) -> InvalidRequestError:
    described = f"is no GBNF: {problem}; allowed: GBNF, or llguidance's Lark"
    return InvalidRequestError([Violation("grammar.lark", described)])
