"""DraftLink: one target's stream as the draft sees it: its sequences, its quotas, and what is to be told to it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from services.draft.drafted_sequence import DraftedSequence
from services.draft_protocol.messages import DraftLoad, DraftMessage
from services.draft_protocol.protocol import MAX_RESPONSES
from services.service.log_rate_limit import LogRateLimit

_MOST_IN_VAIN = 2048  # messages, beyond those that others make up for


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """What one link may hold."""

    max_sequences: int
    max_cached_tokens: int  # in whole KV blocks


class LinkOverflowError(RuntimeError):
    """The target does not read what it is told: the link is to be closed, and opened again."""


class LinkCutError(RuntimeError):
    """The draft cannot go on with this link; another one may be opened."""


class DraftLink:
    """Sequences belong to the engine thread; `send` is called there, `batches` is read on the event loop."""

    def __init__(self, quotas: Quotas, *, capacity: int, log_limit: LogRateLimit | None = None) -> None:
        """`capacity` bounds the messages that wait to be sent, `log_limit` the lines about what a target says; call
        this on the event loop that reads them.
        """
        self.quotas = quotas
        self.log_limit = log_limit or LogRateLimit()
        self.sequences: dict[int, DraftedSequence] = {}
        self._capacity = capacity
        self._loop = asyncio.get_running_loop()
        self._sent: deque[DraftMessage] = deque()  # that the event loop has not seen
        self._is_woken = False
        self._outbox: asyncio.Queue[DraftMessage | DraftLoad | None] = asyncio.Queue()
        self._has_overflowed = False
        self._cut_reason = ""
        self._num_in_vain = 0

    @property
    def num_tokens(self) -> int:
        """Tokens of all sequences, computed or not."""
        return sum(len(sequence.tokens) for sequence in self.sequences.values())

    @property
    def is_in_vain(self) -> bool:
        """Whether most of what the target says is about sequences that are not followed; for any thread."""
        return self._num_in_vain > _MOST_IN_VAIN

    def heard(self, *, is_followed: bool) -> None:
        """Count what the target said of a sequence; some is in vain, until it hears that one was released."""
        self._num_in_vain = max(0, self._num_in_vain - 1) if is_followed else self._num_in_vain + 1

    def send(self, message: DraftMessage) -> None:
        """Queue a message; called by the engine thread."""
        self._sent.append(message)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._take_sent)

    def tell(self, message: DraftLoad) -> None:
        """Queue what there is to do; called on the event loop."""
        self._put(message)

    def hang_up(self) -> None:
        """End `batches` behind those that wait; called on the event loop."""
        self._outbox.put_nowait(None)

    def cut(self, reason: str) -> None:
        """End `batches` at once, with an error; called on the event loop."""
        self._cut_reason = reason
        self.hang_up()

    async def batches(self) -> AsyncIterator[list[DraftMessage | DraftLoad]]:
        """What is to be told, in order and at once; raises LinkOverflowError when too much has waited, and LinkCutError
        behind a cut.
        """
        is_over = False
        while not is_over:
            waiting = [await self._outbox.get()]
            while len(waiting) < MAX_RESPONSES and not self._outbox.empty():
                waiting.append(self._outbox.get_nowait())
            if self._cut_reason:
                raise LinkCutError(self._cut_reason)
            if self._has_overflowed:
                raise LinkOverflowError(f"more than {self._capacity} messages wait for a target that does not read")
            is_over = None in waiting
            if batch := [message for message in waiting if message is not None]:
                yield batch

    def _take_sent(self) -> None:
        self._is_woken = False  # first, so that what is sent from now on wakes us again
        while self._sent:
            self._put(self._sent.popleft())

    def _put(self, message: DraftMessage | DraftLoad) -> None:
        if self._outbox.qsize() < self._capacity:
            self._outbox.put_nowait(message)
        else:
            self._has_overflowed = True  # the reader may be stuck in sending: it is told when it comes back
