"""DrawState: what the draw of a sequence's next token needs besides its logits."""

from collections.abc import Sequence as Seq
from copy import copy

import numpy as np
from numpy.typing import NDArray

from services.engine.events import TokenRecord
from services.engine.grammar.free_text import FreeText
from services.engine.grammar.state import GrammarAhead
from services.engine.request import OutputOptions, Request
from services.engine.sampling_state import new_healing_state, new_request_state
from services.engine.thinking_budget import FreeThought, Thought


class MaskState:
    """Which tokens may come next in an answer: the states of its grammar and its thinking after some of its tokens."""

    def __init__(self, request: Request, received: Seq[int] = ()) -> None:
        """The state after the received tokens."""
        self.place = len(received)  # of the next token in the answer
        self.grammar = request.begin_grammar(received)
        self._thought = request.begin_thought(received)
        self._request = request
        self._is_free = not request.masks_tokens  # every token is allowed at every position

    def snapshot(self) -> "MaskState":
        """A copy that knows the masks of the next token, and is a state again after `restore`."""
        other = copy(self)
        other.grammar = self.grammar.snapshot()
        return other

    def restore(self, answer: Seq[int]) -> None:
        """Make a snapshot the state of the answer whose tokens these are."""
        self.grammar.restore(answer)

    def advance(self, token_id: int) -> None:
        """Follow one more token."""
        self.place += 1
        if self._is_free:
            return
        self.grammar.advance([token_id])
        self._thought = self._thought.after(token_id)

    def ahead(self) -> "MasksAhead | None":
        """What makes masks after one prediction after another; None if no prediction is allowed, or not now."""
        grammar = self.grammar.ahead()
        return None if grammar is None else MasksAhead(grammar, self._thought, self._request, self.place)

    def masks(self, predictions: Seq[int] = ()) -> NDArray[np.uint32] | None:
        """The sampler's masks of the next token and after each prediction, [1 + predictions, words]; None: all tokens
        are allowed. See `GrammarState.masks`.
        """
        if self._is_free:
            return None
        return _restrict(self.grammar.masks(predictions), self._request, self._thought, self.place, predictions)


class MasksAhead:
    """Which tokens may come after predictions; they leave no trace in the text's own state."""

    def __init__(
        self, grammar: GrammarAhead | FreeText, thought: Thought | FreeThought, request: Request, place: int
    ) -> None:
        """`place` is that of the first prediction in the answer."""
        self._grammar, self._thought, self._request, self._place = grammar, thought, request, place

    def after(self, token_id: int) -> NDArray[np.uint32] | None:
        """The sampler's mask after one more prediction, [1, words]; None: all tokens are allowed."""
        self._place += 1
        self._thought = self._thought.after(token_id)
        return _restrict(self._grammar.mask_after(token_id), self._request, self._thought, self._place)


def _restrict(
    masks: NDArray[np.uint32] | None,
    request: Request,
    thought: Thought | FreeThought,
    place: int,
    predictions: Seq[int] = (),
) -> NDArray[np.uint32] | None:
    """A grammar's masks at a place and after predictions, without the tokens that the rest of the request excludes."""
    allowed, forced, num_rows = request.sampling.allowed_tokens, request.forced, 1 + len(predictions)
    masks = masks if allowed is None else allowed.restrict(masks, num_rows)
    masks = thought.restrict(masks, predictions)
    return masks if forced is None else forced.restrict(masks, place, num_rows)


class DrawState:
    """The sampling state, the tokens that are allowed, and the fields of the next token's record."""

    def __init__(self, request: Request) -> None:
        """The state after the prompt and the received tokens; a prompt's last token may have to be healed first."""
        self.allowed = MaskState(request, request.received)
        self.output = request.output
        if request.healing is None:
            self.sampling = new_request_state(request, request.prompt)
        else:
            self.output = request.output.of_prompt() if request.reports_prompt else OutputOptions()
            self.sampling = new_healing_state(
                request.sampling, prompt=request.prompt, healing=request.healing, output=self.output
            )

    def heal(self, request: Request, prompt: Seq[int]) -> None:
        """Begin the answer after a healed prompt."""
        self.output = request.output
        self.sampling = new_request_state(request, prompt)

    def commit(self, records: Seq[TokenRecord]) -> None:
        """Add drawn tokens to the sampling state."""
        levels = [record.level for record in records if record.level is not None] if self.sampling.feeds_back else []
        self.sampling.commit([record.token_id for record in records], levels)

    def take_back(self, before: MaskState, answer: Seq[int], forbidden: Seq[int]) -> None:
        """Restore the state after the tokens of `answer`; the next token must be none of the forbidden ones."""
        self.allowed = before
        before.restore(answer)
        self.sampling.truncate(before.place)
        self.sampling.forbid(forbidden)
