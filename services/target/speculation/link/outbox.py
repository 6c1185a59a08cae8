"""Outbox: the messages that wait for a link."""

from services.draft_protocol.messages import Close, TargetMessage
from services.target.speculation.link.remote_sequence import RemoteSequence


class Outbox:
    """Holds one mark per sequence: messages are made when they are sent, so that commits merge, and a slow link has no
    backlog. Not thread-safe.
    """

    def __init__(self) -> None:
        self._marked: dict[int, RemoteSequence] = {}
        self._closed: list[int] = []
        self._has_news = False  # since the link was woken

    def mark(self, remote: RemoteSequence) -> None:
        """Mark a sequence for messages that bring the draft up to date."""
        self._marked[remote.sequence_id] = remote
        self._has_news = True

    def unmark(self, remote: RemoteSequence) -> None:
        """Send no more messages about a sequence."""
        self._marked.pop(remote.sequence_id, None)

    def close(self, sequence_id: int) -> None:
        """Queue the message that ends a sequence which the draft follows."""
        self._closed.append(sequence_id)
        self._has_news = True

    def clear(self) -> None:
        """Forget everything at the end of the link."""
        self._marked.clear()
        self._closed.clear()

    def take_news(self) -> bool:
        """Whether the link must be woken; resets this."""
        has_news, self._has_news = self._has_news, False
        return has_news

    def next_message(self) -> TargetMessage | None:
        """The next message, which counts as sent; None if the draft is up to date."""
        if self._closed:
            return Close(self._closed.pop())
        while self._marked:
            sequence_id = next(iter(self._marked))
            remote = self._marked.pop(sequence_id)
            if (message := remote.next_message()) is not None:
                self._marked[sequence_id] = remote  # at the end, so that the sequences take turns
                return message
        return None
