"""ForcedTokens: what a checkpoint lets answers begin or end with, whatever is likely there."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.engine.allowed_tokens import AllowedTokens


@dataclass(frozen=True, slots=True)
class ForcedIds:
    """The tokens that a checkpoint forces; none for none.

    The one behind a first token is transformers' `forced_bos_token_id` (ForcedBOSTokenLogitsProcessor), and the last
    ones, of which one is drawn, are its `forced_eos_token_id` (ForcedEOSTokenLogitsProcessor).
    """

    second: tuple[int, ...] = ()
    last: tuple[int, ...] = ()

    def in_answer(self, *, num_prompt: int, min_tokens: int, max_tokens: int, vocab_size: int) -> "ForcedTokens | None":
        """Where they stand in an answer of `max_tokens`, none of which ends before `min_tokens`; None for nowhere."""
        places: dict[int, AllowedTokens] = {}
        if self.second and num_prompt == 1:
            places[0] = AllowedTokens.of(self.second, vocab_size=vocab_size)
        if self.last and min_tokens < max_tokens:
            places[max_tokens - 1] = AllowedTokens.of(self.last, vocab_size=vocab_size)
        return ForcedTokens(places) if places else None


@dataclass(frozen=True, slots=True)
class ForcedTokens:
    """The only tokens that may be drawn in some places of an answer; nothing is forced where other masks leave none."""

    places: Mapping[int, AllowedTokens]  # from 0, the first of the answer's tokens

    def restrict(self, masks: NDArray[np.uint32] | None, place: int, num_rows: int) -> NDArray[np.uint32] | None:
        """Return the sampler's masks for a place and those behind it, less all but what is forced; None forbids
        nothing.  # [num_rows, words]
        """
        forced = {row: self.places[place + row] for row in range(num_rows) if place + row in self.places}
        for row, only in forced.items():
            mask = only.restrict(None if masks is None else masks[row : row + 1], 1)
            if masks is None:
                masks = np.full((num_rows, mask.shape[1]), 0xFFFFFFFF, dtype=np.uint32)
            if mask.any():
                masks = np.concatenate([masks[:row], mask, masks[row + 1 :]])  # a copy: the grammar keeps its own
        return masks
