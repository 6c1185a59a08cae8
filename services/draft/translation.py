"""Translation: one target's sequence in the draft's tokens."""

from collections.abc import Sequence as Tokens

from services.draft.vocabulary_map import VocabularyMap


class Translation:
    """Knows for each of the target's committed tokens where it ends among the draft's own.

    Behind the committed tokens the two go in step: each token that the draft predicts is one of the target's.
    """

    def __init__(self, vocabulary: VocabularyMap) -> None:
        self.vocabulary = vocabulary
        self._ends: list[int] = [0]  # behind so many tokens of the target

    def continues(self, chain: Tokens[int], position: int, token_ids: Tokens[int]) -> bool:
        """Whether the target's new tokens are those that we predicted, as far as both go.

        The same text need not be: what we predicted in two tokens may be one of the target's.
        """
        new = token_ids[max(0, len(self._ends) - 1 - position) :]
        return all(self.vocabulary.to_target(own) == target for own, target in zip(chain, new, strict=False))

    def commit(self, position: int, token_ids: Tokens[int]) -> tuple[int, list[int]]:
        """Truncate to the target's `position` and append its tokens; return the position and the tokens of our own.

        Raises ValueError for a gap.
        """
        if position >= len(self._ends):
            raise ValueError(f"a commit at {position} leaves a gap: {len(self._ends) - 1} tokens are committed")
        del self._ends[position + 1 :]
        own_position, own_ids = self._ends[position], list[int]()
        for token_id in token_ids:
            own_ids.extend(self.vocabulary.spell(token_id))
            self._ends.append(own_position + len(own_ids))
        return own_position, own_ids

    def own_length(self, num_tokens: int) -> int | None:
        """How many of our own tokens the target's first ones are; None before they are committed."""
        return self._ends[num_tokens] if num_tokens < len(self._ends) else None

    def target_position(self, own_position: int) -> int:
        """Where the target sees what is at a position behind the committed tokens."""
        return len(self._ends) - 1 + own_position - self._ends[-1]
