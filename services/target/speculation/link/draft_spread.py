"""DraftSpread: which of several drafts predicts for each sequence."""

from collections.abc import Sequence as Seq

from services.target.sequence.sequence import Sequence
from services.target.speculation.link.remote_predictor import RemotePredictor


class DraftSpread:
    """A new sequence goes to the draft with the least to do, of those that are there and have room for it. It stays, as
    another would have to read it anew, until its draft is lost while there is another.

    Not safe to share between threads.
    """

    def __init__(self, drafts: Seq[RemotePredictor]) -> None:
        self._drafts = drafts
        self._draft_of: dict[Sequence, RemotePredictor] = {}

    def draft_of(self, sequence: Sequence) -> RemotePredictor | None:
        """The draft that the sequence was last given to."""
        return self._draft_of.get(sequence)

    def place(self, sequence: Sequence) -> None:
        """Give the sequence to a draft if it has none, or to another if it has lost the one it had."""
        last = self._draft_of.get(sequence)
        if last is not None and not last.absence:
            return
        best = min(self._drafts, key=lambda draft: _rank(draft, sequence))
        if last is None or not best.absence:
            self.forget(sequence)
            self._draft_of[sequence] = best
            best.commit(sequence)

    def forget(self, sequence: Sequence) -> None:
        """The sequence has ended, or goes to another draft."""
        if (draft := self._draft_of.pop(sequence, None)) is not None:
            draft.close(sequence)


def _rank(draft: RemotePredictor, sequence: Sequence) -> tuple[bool, bool, float, int]:
    """Of drafts with as much to do, the one comes first that has been given the fewest since it came: one that has just
    come is then tried, if only with a rehearsal.
    """
    is_short = draft.load.free_tokens < len(sequence.tokens)
    return bool(draft.absence), is_short, draft.fullness, draft.num_followed
