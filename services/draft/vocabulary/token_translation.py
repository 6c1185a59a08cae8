"""TokenTranslation: the way between two vocabularies along the tokens that both have."""

from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from services.draft.vocabulary.mapped_translation import MappedTranslation
from services.draft.vocabulary.translation import OwnCommit, Run, appended
from services.draft.vocabulary.vocabulary_map import VocabularyMap


class TokenTranslation(MappedTranslation):
    """Behind the committed tokens the two go in step: each token that the draft predicts is one of the target's."""

    def __init__(self, vocabulary: VocabularyMap) -> None:
        super().__init__(vocabulary)
        self._committed: list[int] = []  # the target's tokens
        self._ends: list[int] = [0]  # behind so many of them

    def draws_singly(self, chain: Seq[int]) -> bool:  # noqa: ARG002
        """Never: positions are in step."""
        return False

    def commit(self, tokens: Seq[int], num_committed: int, position: int, token_ids: Seq[int]) -> OwnCommit:
        """The same text in other tokens is no agreement: the two would no longer go in step."""
        chain, new = tokens[num_committed:], appended(self._committed, position, token_ids)
        is_predicted = new is not None and [*map(self.vocabulary.to_target, chain[: len(new)])] == [*new]
        self._committed[position:], self._ends[position + 1 :] = token_ids, []
        own_position, own_ids = self._ends[position], list[int]()
        for token_id in token_ids:
            own_ids.extend(self.vocabulary.own_tokens(token_id))
            self._ends.append(own_position + len(own_ids))
        return OwnCommit(own_position, own_ids, keeps_chain=is_predicted, keeps_epoch=is_predicted)

    def own_length(self, num_tokens: int) -> int | None:
        """How many of our own tokens the target's first ones are; None before they are committed."""
        return self._ends[num_tokens] if num_tokens < len(self._ends) else None

    def target_position(self, chain: Seq[int]) -> int:
        """Where the target sees what comes behind the chain."""
        return len(self._ends) - 1 + len(chain)

    def num_told(self, chain: Seq[int]) -> int:
        """All of the chain."""
        return len(chain)

    def run(self, chain: Seq[int], num_told: int, window: int) -> Run:  # noqa: ARG002 - the chain never leaves it
        """The rest of the chain."""
        return Run(self.target_position(chain[:num_told]), [*map(self.vocabulary.to_target, chain[num_told:])])

    def mask(self, chain: Seq[int]) -> NDArray[np.uint32] | None:  # noqa: ARG002
        """None: what has no partner has no noise, and so is not drawn."""
        return None
