"""DraftSpread: distributes sequences among several drafts."""

from collections.abc import Sequence as Seq

from services.engine.events import FollowCounts
from services.target.sequence.sequence import Sequence
from services.target.speculation.link.remote_predictor import RemotePredictor


class DraftSpread:
    """A new sequence goes to the least loaded draft that is linked and has room for it. It stays there, since another
    draft would have to read it again, until its draft is lost and another one is linked.

    Not thread-safe.
    """

    def __init__(self, drafts: Seq[RemotePredictor]) -> None:
        self._drafts = drafts
        self._draft_of: dict[Sequence, RemotePredictor] = {}

    def draft_of(self, sequence: Sequence) -> RemotePredictor | None:
        """The draft that the sequence was last given to."""
        return self._draft_of.get(sequence)

    def place(self, sequence: Sequence) -> FollowCounts:
        """Give the sequence to a draft if it has none, or to another one if its draft was lost; returns the counts of
        both.
        """
        last = self._draft_of.get(sequence)
        if last is not None and not last.absence:
            return FollowCounts()
        best = min(self._drafts, key=lambda draft: _rank(draft, sequence))
        if last is not None and best.absence:
            return FollowCounts()
        counts = self.forget(sequence)
        self._draft_of[sequence] = best
        return counts + best.commit(sequence)

    def forget(self, sequence: Sequence) -> FollowCounts:
        """Take a sequence that has ended, or that moves, from its draft."""
        draft = self._draft_of.pop(sequence, None)
        return FollowCounts() if draft is None else draft.close(sequence)


def _rank(draft: RemotePredictor, sequence: Sequence) -> tuple[bool, bool, float, int]:
    """The order of drafts, the best one first. Among equally loaded ones it is the one with the fewest sequences since
    it was linked, so that a new one is tried, if only with a rehearsal.
    """
    is_short = draft.load.free_tokens < len(sequence.tokens)
    return bool(draft.absence), is_short, draft.fullness, draft.num_followed
