"""GBNF: converts grammars in the format of llama.cpp and xgrammar, also called EBNF, to llguidance's Lark."""

import re
from typing import Any

from llguidance.gbnf_to_lark import gbnf_to_lark

from services.engine.awaited_worker import AwaitedWorker
from services.engine.worker_process import WorkerError, WorkerLimits, serve
from services.service.errors import InvalidRequestError, Violation
from services.service.limits import LIMITS

_RULE = re.compile(r"^[ \t]*[\w-]+\s*::=", re.MULTILINE)
_LIMITS = WorkerLimits(cpu_seconds=0.5, seconds=10.0, memory=512 << 20, answer_bytes=1 << 20)
_GRACE_SECONDS = 0.5  # for a grammar whose caller has gone: a new worker takes about as long to start
_MOST_LETTERS = 200  # of the library's error


class GbnfReader:
    """Converts one grammar at a time, in a worker process: the library takes quadratic time for some grammars."""

    def __init__(self) -> None:
        self._worker = AwaitedWorker(__name__, None, _LIMITS, grace_seconds=_GRACE_SECONDS)

    async def to_lark(self, text: str) -> str:
        """The grammar in Lark; one that is Lark already, or too long for any grammar, is returned as it is.

        Raises InvalidRequestError for invalid GBNF.
        """
        if len(text.encode()) > LIMITS.max_grammar_bytes or not _RULE.search(text):
            return text
        try:
            answer = await self._worker.call(text, lambda answer: answer)
        except WorkerError as error:
            raise _refusal(str(error)) from error
        match answer:
            case {"lark": str(lark)}:
                return lark
            case {"problem": str(problem)}:
                raise _refusal(problem[:_MOST_LETTERS])
        raise _refusal("it was not understood")


def main() -> None:
    """Run the worker process."""
    serve(lambda _: _convert)


def _convert(text: Any) -> object:  # noqa: ANN401 - a text, as JSON has it
    try:
        return {"lark": gbnf_to_lark(text)}
    except MemoryError:
        raise
    except Exception as error:  # the library raises many kinds of errors
        return {"problem": str(error) or type(error).__name__}


def _refusal(problem: str) -> InvalidRequestError:
    described = f"is no GBNF: {problem}; allowed: GBNF, or llguidance's Lark"
    return InvalidRequestError([Violation("grammar.lark", described)])
