"""ForcedTokens: tokens that a checkpoint forces at the beginning or end of answers."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.engine.allowed_tokens import AllowedTokens


@dataclass(frozen=True, slots=True)
class ForcedIds:
    """The tokens that a checkpoint forces; empty: none.

    `second` comes after the first token of a text, transformers' `forced_bos_token_id` (ForcedBOSTokenLogitsProcessor).
    One of `last` is sampled as the last token, transformers' `forced_eos_token_id` (ForcedEOSTokenLogitsProcessor).
    """

    second: tuple[int, ...] = ()
    last: tuple[int, ...] = ()

    def in_answer(self, *, num_prompt: int, min_tokens: int, max_tokens: int, vocab_size: int) -> "ForcedTokens | None":
        """Return the forced tokens of an answer of `min_tokens` to `max_tokens` tokens; None if nothing is forced."""
        places: dict[int, AllowedTokens] = {}
        if self.second and num_prompt == 1:
            places[0] = AllowedTokens.of(self.second, vocab_size=vocab_size)
        if self.last and min_tokens < max_tokens:
            places[max_tokens - 1] = AllowedTokens.of(self.last, vocab_size=vocab_size)
        return ForcedTokens(places) if places else None


@dataclass(frozen=True, slots=True)
class ForcedTokens:
    """The only allowed tokens at some positions of an answer, unless other masks forbid all of them."""

    places: Mapping[int, AllowedTokens]  # by position; 0 is the answer's first token

    def restrict(self, masks: NDArray[np.uint32] | None, place: int, num_rows: int) -> NDArray[np.uint32] | None:
        """Return the sampler's masks for a position and those after it, restricted to forced tokens; None: no mask.

        # [num_rows, words]
        """
        forced = {row: self.places[place + row] for row in range(num_rows) if place + row in self.places}
        for row, only in forced.items():
            mask = only.restrict(None if masks is None else masks[row : row + 1], 1)
            if masks is None:
                masks = np.full((num_rows, mask.shape[1]), 0xFFFFFFFF, dtype=np.uint32)
            if mask.any():
                masks = np.concatenate([masks[:row], mask, masks[row + 1 :]])  # a copy: the grammar owns these
        return masks
