"""Alternatives: whether a position has any token left to draw apart from those tried there."""

from collections.abc import Collection
from itertools import chain

import numpy as np

from services.engine.request import Request
from services.target.sequence.draw_state import MaskState


class Alternatives:
    """The tokens that a request allows, by its masks, its logit_bias and min_tokens."""

    def __init__(self, request: Request, *, vocab_size: int) -> None:
        """`vocab_size` is the tokenizer's."""
        self._request = request
        self._vocab_size = vocab_size
        biases = request.sampling.logit_bias.items()
        self._excluded_ids = [token_id for token_id, bias in biases if bias == -np.inf]

    @property
    def are_unlimited(self) -> bool:
        """Whether no mask ever forbids a token."""
        return not self._request.masks_tokens

    def remain(self, tried: Collection[int], allowed: MaskState) -> bool:
        """Whether a token is left apart from those tried, given what is allowed there."""
        masks = allowed.masks()
        if masks is None:
            return True
        is_open = np.unpackbits(masks[0].view(np.uint8), bitorder="little")
        if self._request.grammar is not None:
            is_open[self._vocab_size :] = 0  # the id after the last one, which stands for the end of a text
        stops = self._request.stops
        early = stops.token_ids if allowed.place < stops.min_tokens else ()
        is_open[[*chain(tried, early, self._excluded_ids)]] = 0
        return bool(is_open.any())
