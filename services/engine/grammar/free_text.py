"""FreeText: the state of a text without a grammar."""

from collections.abc import Sequence as Seq


class FreeText:
    """Used like a GrammarState; every token is allowed."""

    num_followed = 0
    is_rejected = False
    may_end = True
    was_mask_right = True
    is_ready = True

    def snapshot(self) -> "FreeText":
        """Return this state, which never changes."""
        return self

    def restore(self, token_ids: Seq[int]) -> None:
        """Do nothing: no token changes what is allowed."""

    def wait(self, seconds: float) -> None:
        """Do nothing: the state is always ready."""

    def advance(self, token_ids: Seq[int]) -> None:
        """Do nothing: no token changes what is allowed."""

    def num_allowed(self, token_ids: Seq[int]) -> int:
        """Return the number of these tokens: all are allowed."""
        return len(token_ids)

    def ahead(self) -> "FreeText":
        """Return this state, which never changes."""
        return self

    def mask_after(self, token_id: int) -> None:
        """Return None: no mask is needed."""

    def masks(self, predictions: Seq[int] = ()) -> None:
        """Return None: no mask is needed."""
