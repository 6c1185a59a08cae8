"""Alternatives: whether a place of the text leaves anything to draw but what was tried there."""

from collections.abc import Collection
from itertools import chain

import numpy as np

from services.engine.grammar.state import GrammarState
from services.engine.request import Request
from services.engine.thinking_budget import Thought


class Alternatives:
    """What a request lets be drawn, by all that masks tokens in it, its biases and its least number of tokens."""

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

    def remain(
        self, tried: Collection[int], grammar: GrammarState | None, thought: Thought | None, *, num_generated: int
    ) -> bool:
        """Whether there are any behind so many generated tokens, where the text stands there in the grammar and with
        its thought.
        """
        masks = self._request.masks(num_generated, grammar, thought)
        if masks is None:
            return True
        is_open = np.unpackbits(masks[0].view(np.uint8), bitorder="little")
        if grammar is not None:
            is_open[self._vocab_size :] = 0  # the id behind the last, which stands for the end of a text
        stops = self._request.stops
        early = stops.token_ids if num_generated < stops.min_tokens else ()
        is_open[[*chain(tried, early, self._excluded_ids)]] = 0
        return bool(is_open.any())
