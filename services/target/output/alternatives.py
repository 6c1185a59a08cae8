"""Alternatives: whether a position has any token left to draw apart from those tried there."""

from collections.abc import Collection
from itertools import chain

import numpy as np

from services.engine.grammar.state import GrammarState
from services.engine.request import Request
from services.engine.thinking_budget import Thought


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

    def remain(
        self, tried: Collection[int], grammar: GrammarState | None, thought: Thought | None, *, num_generated: int
    ) -> bool:
        """Whether a token is left after `num_generated` tokens, given the grammar's and the thought's state there."""
        masks = self._request.masks(num_generated, grammar, thought)
        if masks is None:
            return True
        is_open = np.unpackbits(masks[0].view(np.uint8), bitorder="little")
        if grammar is not None:
            is_open[self._vocab_size :] = 0  # the id after the last one, which stands for the end of a text
        stops = self._request.stops
        early = stops.token_ids if num_generated < stops.min_tokens else ()
        is_open[[*chain(tried, early, self._excluded_ids)]] = 0
        return bool(is_open.any())
