"""Outbox: the messages that wait for a link."""

from services.draft_protocol.messages import Close, TargetMessage
from services.target.speculation.link.remote_sequence import RemoteSequence


class Outbox:
    """Holds one mark per sequence: messages are made when they are sent, so commits merge and nothing piles up behind a
    slow link. Not safe to share between threads.
    """

    def __init__(self) -> None:
        self._marked: dict[int, RemoteSequence] = {}
        self._closed: list[int] = []
        self._has_news = False  # that the link was not woken for

    def mark(self, remote: RemoteSequence) -> None:
        """The draft is to be brought up to date with a sequence."""
        self._marked[remote.sequence_id] = remote
        self._has_news = True

    def unmark(self, remote: RemoteSequence) -> None:
        """Nothing more is to be said of a sequence."""
        self._marked.pop(remote.sequence_id, None)

    def close(self, sequence_id: int) -> None:
        """A sequence that the draft is at work on has ended."""
        self._closed.append(sequence_id)
        self._has_news = True

    def clear(self) -> None:
        """The link has ended."""
        self._marked.clear()
        self._closed.clear()

    def take_news(self) -> bool:
        """Whether the link is to be woken, which it is then."""
        has_news, self._has_news = self._has_news, False
        return has_news

    def next_message(self) -> TargetMessage | None:
        """The next one, which counts as sent; None where the draft is up to date."""
        if self._closed:
            return Close(self._closed.pop())
        while self._marked:
            sequence_id = next(iter(self._marked))
            remote = self._marked.pop(sequence_id)
            if (message := remote.next_message()) is not None:
                self._marked[sequence_id] = remote  # at the end: the sequences take turns
                return message
        return None
