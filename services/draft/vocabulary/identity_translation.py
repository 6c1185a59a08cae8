"""IdentityTranslation: the translation for a target with the draft's own vocabulary."""

from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from services.draft.vocabulary.translation import OwnCommit, Run, check_no_gap
from services.engine.decoder.native import SamplingState
from services.engine.sampling_params import SamplingParams


class IdentityTranslation:
    """All tokens and positions are the same on both sides."""

    is_identity = True

    def __init__(self, size: int) -> None:
        """`size` is the vocabulary size of the model."""
        self.target_size = size
        self._num_committed = 0

    def own_ids(self, target_ids: Seq[int]) -> Seq[int]:
        """The ids themselves, unchanged."""
        return target_ids

    def own_params(self, params: SamplingParams) -> SamplingParams:
        """The parameters themselves, unchanged."""
        return params

    def align(self, sampling: SamplingState, chain: Seq[int]) -> None:
        """Do nothing: the sampler counts positions as the target does."""

    def draws_singly(self, chain: Seq[int]) -> bool:  # noqa: ARG002
        """False: several tokens can always be drawn at a time."""
        return False

    def commit(self, tokens: Seq[int], num_committed: int, position: int, token_ids: Seq[int]) -> OwnCommit:  # noqa: ARG002
        """The commit itself, unchanged; raises ValueError for a gap."""
        check_no_gap(position, num_committed)
        self._num_committed = position + len(token_ids)
        return OwnCommit(position, token_ids)

    def own_length(self, num_tokens: int) -> int:
        """The same number of tokens."""
        return num_tokens

    def num_sent(self, chain: Seq[int]) -> int:
        """The length of the chain: the target is sent the whole chain."""
        return len(chain)

    def run(self, chain: Seq[int], num_sent: int, window: int) -> Run:  # noqa: ARG002 - the chain never leaves it
        """The rest of the chain, after the tokens that were sent."""
        return Run(self._num_committed + num_sent, chain[num_sent:])

    def mask(self, chain: Seq[int]) -> NDArray[np.uint32] | None:  # noqa: ARG002
        """None: any token may be next."""
        return None
