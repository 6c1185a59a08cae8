"""DraftLink: one target's stream as the draft sees it: its sequences, its quotas, and the messages to send."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from services.draft.drafted_sequence import DraftedSequence
from services.draft_protocol.messages import DraftLoad, DraftMessage
from services.draft_protocol.protocol import MAX_RESPONSES
from services.service.log_rate_limit import LogRateLimit

_MOST_IN_VAIN = 2048  # messages in vain, less the messages that were not


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The limits of one link."""

    max_sequences: int
    max_cached_tokens: int  # in whole KV blocks


class LinkOverflowError(RuntimeError):
    """The target does not read its messages: the link must be closed, and may be opened again."""


class LinkCutError(RuntimeError):
    """The draft has ended this link; the target may open another one."""


class DraftLink:
    """Sequences belong to the engine thread; `send` is called there, `batches` is read on the event loop."""

    def __init__(self, quotas: Quotas, *, capacity: int, log_limit: LogRateLimit | None = None) -> None:
        """`capacity` limits the messages that wait to be sent, `log_limit` the log lines about the target's messages.

        Call this on the event loop that reads `batches`.
        """
        self.quotas = quotas
        self.log_limit = log_limit or LogRateLimit()
        self.sequences: dict[int, DraftedSequence] = {}
        self._capacity = capacity
        self._loop = asyncio.get_running_loop()
        self._sent: deque[DraftMessage] = deque()  # not yet seen by the event loop
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
        """Whether most of the target's messages are about sequences that are not followed; for any thread."""
        return self._num_in_vain > _MOST_IN_VAIN

    def heard(self, *, is_followed: bool) -> None:
        """Count a message about a sequence; some are in vain until the target reads that the sequence was released."""
        self._num_in_vain = max(0, self._num_in_vain - 1) if is_followed else self._num_in_vain + 1

    def send(self, message: DraftMessage) -> None:
        """Queue a message; called by the engine thread."""
        self._sent.append(message)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._take_sent)

    def send_load(self, message: DraftLoad) -> None:
        """Queue the draft's load; called on the event loop."""
        self._put(message)

    def hang_up(self) -> None:
        """End `batches` after the waiting messages; called on the event loop."""
        self._outbox.put_nowait(None)

    def cut(self, reason: str) -> None:
        """End `batches` at once, with an error; called on the event loop."""
        self._cut_reason = reason
        self.hang_up()

    async def batches(self) -> AsyncIterator[list[DraftMessage | DraftLoad]]:
        """The queued messages in order, all that wait as one batch.

        Raises LinkOverflowError if too many have waited, and LinkCutError after a cut.
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
            self._has_overflowed = True  # raised by `batches`, whose consumer may be stuck in sending now
