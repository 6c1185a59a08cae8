"""Rehearsal: a generation that nobody waits for, by which is learned what a draft is worth."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Coroutine

from services.engine.request import CachePolicy, Request, SamplingParams, SpeculationPolicy, StopConditions
from services.engine.text.tokenizer import Tokenizer

_TEXT = """The library keeps a record of every book: who wrote it, when it was printed, and where it stands.

def overdue(loans, today):
    \"\"\"Return the loans that should have been returned, the oldest first.\"\"\"
    late = [loan for loan in loans if loan.due < today]
    return sorted(late, key=lambda loan: loan.due)

A reader who returns a book late pays a small fee for each day. The fee is
"""
REHEARSAL_ID = "rehearsal"
"""The request id of all rehearsals."""

_MOST_PROMPT = 128  # tokens
_NUM_TOKENS = 64
_REST = 60.0  # seconds between two, which take a few, where a draft comes and goes
_DELAY = 0.5  # seconds until the next try, while there is something else to do
_AGAIN = 600.0  # seconds, after which what was learned may no longer be so


def rehearsal_request(tokenizer: Tokenizer, *, context_length: int) -> Request:
    """A text to go on with, of an ordinary kind: long enough to see how fast a draft reads it, and predicts. Nothing of
    it is left in the prefix cache.
    """
    prompt = tokenizer.encode(_TEXT, add_special_tokens=True)[: min(_MOST_PROMPT, context_length // 2)]
    return Request(
        request_id=REHEARSAL_ID,
        prompt=tuple(prompt) or (0,),
        sampling=SamplingParams(seed=0, temperature=0.7),
        stops=StopConditions(max_tokens=_NUM_TOKENS),
        speculation=SpeculationPolicy(lookup=False),
        cache=CachePolicy(prefix=False),
    )


class Rehearsals:
    """One whenever a draft has come, and again from time to time: what was of no use then may be of some."""

    def __init__(self) -> None:
        self._began_at = -math.inf
        self._came, self._tried = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def draft_came(self, rehearse: Callable[[], Coroutine[None, None, bool]]) -> None:
        """Begin when there is nothing else to do; `rehearse` returns False if there was. Call it on an event loop."""
        self.stop()
        self._came.set()
        now = time.monotonic()
        self._began_at = max(now, self._began_at + _REST)
        self._task = asyncio.create_task(self._run(rehearse, after=self._began_at - now))

    async def first(self, *, coming: float, lasting: float) -> None:
        """Wait so many seconds at most for a draft to come, and then for as many at most as the first one may take."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._came.wait(), coming)
            await asyncio.wait_for(self._tried.wait(), lasting)

    def stop(self) -> None:
        """No more of them."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, rehearse: Callable[[], Coroutine[None, None, bool]], *, after: float) -> None:
        while True:
            await asyncio.sleep(after)
            after = _AGAIN if await rehearse() else _DELAY
            self._tried.set()
