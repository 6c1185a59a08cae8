"""TokenTranslation: translates between two vocabularies through the tokens that both have."""

from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from services.draft.vocabulary.mapped_translation import MappedTranslation
from services.draft.vocabulary.translation import OwnCommit, Run, appended
from services.draft.vocabulary.vocabulary_map import VocabularyMap


class TokenTranslation(MappedTranslation):
    """After the committed tokens the two are in step: each token that the draft predicts is one of the target's."""

    def __init__(self, vocabulary: VocabularyMap) -> None:
        super().__init__(vocabulary)
        self._committed: list[int] = []  # the target's tokens
        self._ends: list[int] = [0]  # number of our own tokens for each number of the target's

    def draws_singly(self, chain: Seq[int]) -> bool:  # noqa: ARG002
        """False: positions are in step, so that several tokens can be drawn at a time."""
        return False

    def commit(self, tokens: Seq[int], num_committed: int, position: int, token_ids: Seq[int]) -> OwnCommit:
        """Keep the chain only if the tokens agree: with the same text in other tokens the two would not be in step."""
        chain, new = tokens[num_committed:], appended(self._committed, position, token_ids)
        is_predicted = new is not None and [*map(self.vocabulary.to_target, chain[: len(new)])] == [*new]
        self._committed[position:], self._ends[position + 1 :] = token_ids, []
        own_position, own_ids = self._ends[position], list[int]()
        for token_id in token_ids:
            own_ids.extend(self.vocabulary.own_tokens(token_id))
            self._ends.append(own_position + len(own_ids))
        return OwnCommit(own_position, own_ids, keeps_chain=is_predicted, keeps_epoch=is_predicted)

    def own_length(self, num_tokens: int) -> int | None:
        """The number of our own tokens for the target's first `num_tokens`; None before these are committed."""
        return self._ends[num_tokens] if num_tokens < len(self._ends) else None

    def target_position(self, chain: Seq[int]) -> int:
        """The target's position of the token after the chain."""
        return len(self._ends) - 1 + len(chain)

    def num_sent(self, chain: Seq[int]) -> int:
        """The length of the chain: the target is sent the whole chain."""
        return len(chain)

    def run(self, chain: Seq[int], num_sent: int, window: int) -> Run:  # noqa: ARG002 - the chain never leaves it
        """The rest of the chain, after the tokens that were sent."""
        return Run(self.target_position(chain[:num_sent]), [*map(self.vocabulary.to_target, chain[num_sent:])])

    def mask(self, chain: Seq[int]) -> NDArray[np.uint32] | None:  # noqa: ARG002
        """None: tokens without a partner need no mask, since they have no noise and so are not drawn."""
        return None
