"""Rehearsal: a generation without a client, to measure a draft."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Coroutine
from itertools import chain, repeat

from services.engine.request import CachePolicy, Request, SpeculationPolicy, StopConditions
from services.engine.sampling_params import SamplingParams
from services.engine.text.tokenizer import Tokenizer
from services.target.speculation.policy.policy_config import PolicyConfig

_TEXT = """The library keeps a record of every book: who wrote it, when it was printed, and where it stands.

def overdue(loans, today):
    \"\"\"Return the loans that should have been returned, the oldest first.\"\"\"
    late = [loan for loan in loans if loan.due < today]
    return sorted(late, key=lambda loan: loan.due)

A reader who returns a book late pays a small fee for each day. The fee is
"""
REHEARSAL_ID = "rehearsal"
"""The request id of all rehearsals."""


def rehearsal_request(tokenizer: Tokenizer, config: PolicyConfig, *, seed: int, context_length: int) -> Request:
    """A request to continue an ordinary text, long enough to measure how fast a draft prefills and predicts.

    With another seed the text continues in another way, which gives more measurements. The prefix cache does not keep
    it.
    """
    prompt = tokenizer.encode(_TEXT, add_special_tokens=True)[: context_length // 2]
    return Request(
        request_id=REHEARSAL_ID,
        prompt=tuple(prompt) or (0,),
        sampling=SamplingParams(seed=seed),
        stops=StopConditions(max_tokens=config.rehearsal_tokens),
        speculation=SpeculationPolicy(lookup=False),
        cache=CachePolicy(prefix=False),
        is_counted=False,
    )


class Rehearsals:
    """Rehearses whenever a draft is linked, and again from time to time, since a useless draft may become useful."""

    def __init__(self, config: PolicyConfig) -> None:
        self._config = config
        self._began_at = -math.inf
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def draft_came(self, rehearse: Callable[[], Coroutine[None, None, bool]]) -> None:
        """Begin rehearsals for a new link, on an event loop; `rehearse` returns False if the target was busy."""
        self.stop()
        self._task = asyncio.create_task(self._run(rehearse))

    async def first(self) -> None:
        """Wait for the first rehearsal to end, for a limited time; not for that of a draft that is not linked yet."""
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._tried.wait(), self._config.first_wait)

    def stop(self) -> None:
        """Cancel all further rehearsals."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, rehearse: Callable[[], Coroutine[None, None, bool]]) -> None:
        *first, last = self._config.rehearse_after
        rest = self._began_at + self._config.first_wait - time.monotonic()  # after the last link's
        for after in chain(first, repeat(last)):
            await asyncio.sleep(max(after, rest))
            rest, self._began_at = 0.0, time.monotonic()
            is_done = await rehearse()
            self._tried.set()
            while not is_done:
                await asyncio.sleep(self._config.draft_wait)
                is_done = await rehearse()
