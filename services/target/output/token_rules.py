"""TokenRules: checks whether a given answer could have been drawn, whatever the logits were."""

import math
from collections.abc import Sequence as Seq

from services.engine.request import Request
from services.target.sequence.continuation_error import ContinuationError
from services.target.sequence.draw_state import MaskState

_WORD_BITS = 32  # of the sampler's masks


class TokenRules:
    """Applies the sampler's own rules to the received tokens of a continuation: a token that the sampler never draws at
    its position cannot be part of this request's answer.
    """

    def __init__(self, request: Request, prompt: Seq[int]) -> None:
        self._request, self._tokens, self._num_prompt = request, [*prompt], len(prompt)
        self._thought = request.begin_thought()
        self._runs: dict[int, list[int]] = {}  # the positions of runs of tokens, by hash
        size = request.sampling.no_repeat_ngram_size
        for end in range(size, len(prompt) + 1) if size else ():
            self._note_run(end)

    def take(self, token_id: int) -> None:
        """Append one token; raises ContinuationError, which names the rule, if the token could not be drawn there."""
        place, forced_id = len(self._tokens) - self._num_prompt, self._thought.forced_id
        if forced_id not in {None, token_id}:
            raise ContinuationError(f"stop.max_thinking_tokens forces token {forced_id} at {place}")
        self._tokens.append(token_id)
        if (field := self._broken(place, token_id)) is not None:
            raise ContinuationError(f"{field} forbids the token at {place}")
        if self._is_forced_away(place, token_id):
            raise ContinuationError(f"the checkpoint forces another token at {place}")
        self._thought = self._thought.after(token_id)

    def _broken(self, place: int, token_id: int) -> str | None:
        """The field that forbids the last token, if one does."""
        sampling, stops = self._request.sampling, self._request.stops
        rules = {
            "sampling.allowed_token_ids": sampling.allowed_tokens is not None
            and token_id not in sampling.allowed_tokens,
            "sampling.suppress_token_ids": token_id in sampling.suppressed_ids,
            "sampling.begin_suppress_token_ids": place == 0 and token_id in sampling.begin_suppressed_ids,
            "sampling.logit_bias": sampling.logit_bias.get(token_id) == -math.inf,
            "sampling.bad_words_ids": any(self._ends_with(word) for word in sampling.bad_words),
            "sampling.no_repeat_ngram_size": self._repeats(),
            "stop.min_tokens": place < stops.min_tokens and token_id in stops.token_ids,
        }
        return next((field for field, is_broken in rules.items() if is_broken), None)

    def _ends_with(self, word: Seq[int]) -> bool:
        return len(self._tokens) >= len(word) and [*word] == self._tokens[-len(word) :]

    def _repeats(self) -> bool:
        """Whether the last run of tokens occurred before; it is recorded."""
        size = self._request.sampling.no_repeat_ngram_size
        return 0 < size <= len(self._tokens) and self._note_run(len(self._tokens))

    def _note_run(self, end: int) -> bool:
        first = end - self._request.sampling.no_repeat_ngram_size
        run = self._tokens[first:end]
        others = self._runs.setdefault(hash(tuple(run)), [])
        is_known = any(self._tokens[other : other + len(run)] == run for other in others)
        if not is_known:
            others.append(first)
        return is_known

    def _is_forced_away(self, place: int, token_id: int) -> bool:
        """Whether another token is forced there, by the masks, which drop the rule if no token would be left."""
        request, received = self._request, self._request.received
        if request.forced is None or place not in request.forced.places or token_id in request.forced.places[place]:
            return False
        masks = MaskState(request, received[:place]).masks()
        assert masks is not None
        return not masks[0, token_id // _WORD_BITS] >> token_id % _WORD_BITS & 1
