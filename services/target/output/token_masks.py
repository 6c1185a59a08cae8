"""Choices: what a request lets be drawn at a place of its text."""

from collections.abc import Collection
from collections.abc import Sequence as Tokens
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from services.engine.grammar.state import GrammarState
from services.engine.request import Request


class Choices:
    """The grammar and the list of allowed tokens together, as the sampler takes them: one mask with a bit per token."""

    def __init__(self, request: Request, *, vocab_size: int) -> None:
        """`vocab_size` is the tokenizer's."""
        self.grammar = request.begin_grammar()
        """Where the text stands, which its owner advances and takes back."""
        self._allowed = request.sampling.allowed_tokens
        self._stops = request.stops
        self._vocab_size = vocab_size
        biases = request.sampling.logit_bias.items()
        self._banned_ids = [token_id for token_id, bias in biases if bias == -np.inf]

    @property
    def are_all(self) -> bool:
        """Whether every token may be drawn, as far as masks go."""
        return self.grammar is None and self._allowed is None

    def masks(self, predictions: Tokens[int] = ()) -> NDArray[np.uint32] | None:
        """What may be drawn next, and behind each prediction, as `GrammarState.masks` has it; None for all."""
        return self._masks(self.grammar, predictions)

    def objection(self, count: int, token_id: int) -> str | None:
        """What forbids a token behind so many others, all of which the grammar has been told of; None if nothing."""
        if self.grammar is not None and self.grammar.has_strayed and self.grammar.num_followed == count:
            return "the grammar forbids"
        if self._allowed is not None and token_id not in self._allowed:
            return "sampling.allowed_token_ids has not"
        return None

    def num_forced(self, tried: Tokens[tuple[Tokens[int], GrammarState | None]], *, num_before: int) -> int:
        """In how many places of the text, from the first of these on, nothing may be drawn but what was tried there.

        Each comes with where the grammar stands there. They come behind `num_before` generated tokens.
        """
        for index, (token_ids, grammar) in enumerate(tried):
            if self._leaves_other(token_ids, grammar, num_before + index):
                return index
        return len(tried)

    def _masks(self, grammar: GrammarState | None, predictions: Tokens[int] = ()) -> NDArray[np.uint32] | None:
        masks = None if grammar is None else grammar.masks(predictions)
        return masks if self._allowed is None else self._allowed.restrict(masks, 1 + len(predictions))

    def _leaves_other(self, taken: Collection[int], grammar: GrammarState | None, num_generated: int) -> bool:
        masks = self._masks(grammar)
        if masks is None:
            return True
        is_open = np.unpackbits(masks[0].view(np.uint8), bitorder="little")
        if grammar is not None:
            is_open[self._vocab_size :] = 0  # the id behind the last, which stands for the end of a text
        early = self._stops.token_ids if num_generated < self._stops.min_tokens else ()
        is_open[[*chain(taken, early, self._banned_ids)]] = 0
        return bool(is_open.any())
