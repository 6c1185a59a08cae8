"""DraftedSequence: a target's sequence as the draft follows it, and the chain predicted beyond it."""

from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from services.draft.vocabulary.translation import Run, Translation
from services.engine.cache.cached_tokens import CachedTokens
from services.engine.decoder.native import SamplingState
from services.engine.grammar.grammar import Grammar
from services.engine.grammar.matcher import GrammarMatcher
from services.engine.lora.adapter import Adapter
from services.engine.request import ANYBODY
from services.engine.sampling_params import SamplingParams
from services.engine.sampling_state import new_sampling_state


class RewindableMatcher:
    """One matcher follows the settled tokens; a fork of it follows the whole text, and is replaced after a cut."""

    def __init__(self, start: GrammarMatcher) -> None:
        """`start` has not followed any token yet."""
        self._start = start
        self._settled = start.fork()
        self._whole = start.fork()

    def cut(self, num_tokens: int) -> None:
        """Truncate the text to its first `num_tokens` tokens."""
        if num_tokens < self._settled.num_tokens:
            self._settled = self._start.fork()
        if num_tokens < self._whole.num_tokens:
            self._whole = self._settled.fork()

    def mask(self, token_ids: Seq[int], *, num_settled: int) -> NDArray[np.uint32]:
        """The tokens that may come after this text, [words]; its first `num_settled` tokens are unlikely to be cut."""
        self._settled.advance(token_ids[self._settled.num_tokens : num_settled])
        if self._whole.num_tokens < self._settled.num_tokens:
            self._whole = self._settled.fork()
        self._whole.advance(token_ids[self._whole.num_tokens :])
        return self._whole.mask()


class DraftedSequence:
    """The tokens that the target committed, then the draft's own chain, which may have `window` tokens of the target.

    Predictions of one epoch continue one another. A commit that contradicts the chain, or that runs past its end,
    begins a new epoch. All tokens and positions here are the draft's; the Translation converts them for a target with
    another vocabulary.
    """

    def __init__(
        self,
        sampling: SamplingParams,
        translation: Translation,
        *,
        num_prompt: int,
        min_tokens: int,
        masked_ids: Seq[int],
        grammar: Grammar | None = None,
        cache_scope: str | None = ANYBODY,
        adapter: Adapter | None = None,
        traceparent: str = "",
    ) -> None:
        """The arguments are in the target's tokens; each adapter's sequences have their own cache scope.

        For a target with another vocabulary, `min_tokens` counts the draft's own generated tokens, which may be a few
        more; grammars are left to the target, and so are allowed tokens where the translation is through bytes.
        """
        self.text = CachedTokens(cache_scope=cache_scope)  # its tokens are the committed ones, then predicted ones
        self.num_committed = 0
        self.window = 0
        self.is_awaited = False  # whether the target waits for all of the window
        self.least_chance = 0.0  # the chain stops growing when the probability that it is right falls below this
        self.has_ended = False  # for that reason
        self.num_alternates = 0  # wanted by the target
        self.epoch = self._last_epoch = 1
        self.num_sent = 0  # leading tokens that the target knows, if it has the same vocabulary
        self.num_predicted = 0  # in total
        self.adapter, self.traceparent = adapter, traceparent  # of its request, if the target gave them
        self._translation = translation
        self._params = translation.own_params(sampling)
        self._num_prompt, self._min_tokens = num_prompt, min_tokens
        self._masked_ids = translation.own_ids(masked_ids)
        self._sampling: SamplingState | None = None
        self._grammar: RewindableMatcher | None = None
        if grammar is not None and translation.is_identity:
            self._grammar = RewindableMatcher(grammar.matcher(stop_ids=masked_ids))

    @property
    def tokens(self) -> list[int]:
        """The tokens of its text."""
        return self.text.tokens

    @property
    def chain(self) -> list[int]:
        """The predictions that the target has not decided on yet."""
        return self.tokens[self.num_committed :]

    @property
    def credit(self) -> int:
        """How many more tokens may be predicted now; none before the whole prompt is known.

        With a mask at most one, since a mask is for the next token only.
        """
        num_prompt = self._num_own_prompt
        if num_prompt is None or self.num_committed < num_prompt:
            return 0
        chain = self.chain
        is_single = self._is_masked or self._params.follows_history or self._translation.draws_singly(chain)
        return max(0, min(self.window - self._translation.num_sent(chain), 1 if is_single else self.window))

    @property
    def is_prompt_pending(self) -> bool:
        """Whether tokens of the prompt are still to be computed."""
        num_prompt = self._num_own_prompt
        return num_prompt is None or self.text.num_computed < num_prompt

    @property
    def mask(self) -> NDArray[np.uint32] | None:
        """The tokens that may come next, [1, words]; None for all.

        They are those that the grammar allows, none after a forbidden token or a stop, or those that the translation
        to another vocabulary allows; either way only those among the request's allowed tokens.
        """
        if self._grammar is None:
            masks = self._translation.mask(self.chain)
        else:
            num_settled = self.num_committed - self._num_prompt
            masks = self._grammar.mask(self.tokens[self._num_prompt :], num_settled=num_settled)[np.newaxis]
        allowed = self._params.allowed_tokens
        return masks if allowed is None else allowed.restrict(masks, 1)

    @property
    def sampling(self) -> SamplingState:
        """How the target draws, with the committed tokens as history."""
        if self._sampling is None:
            self._sampling = self._new_sampling()
            self._sampling.commit(self.tokens[self._num_own_prompt : self.num_committed])
        self._translation.align(self._sampling, self.chain)
        return self._sampling

    def commit(self, position: int, token_ids: Seq[int]) -> None:
        """Truncate the committed tokens to `position` and append these; both are in the target's tokens.

        Raises ValueError for a gap before `position`.
        """
        self.has_ended = False
        own = self._translation.commit(self.tokens, self.num_committed, position, token_ids)
        position, token_ids = own.position, own.token_ids
        end = position + len(token_ids)
        agreed = position + _common_length(self.tokens[position:end], token_ids)
        is_rewound = end < self.num_committed or agreed < min(end, self.num_committed)
        is_contradicted = is_rewound or agreed < end or not own.keeps_chain
        if is_contradicted:
            self.text.rewind(agreed, token_ids[agreed - position :])
            if self._grammar is not None:
                self._grammar.cut(max(0, agreed - self._num_prompt))
        if is_contradicted or not own.keeps_epoch:
            self.epoch, self.num_sent = self.begin_epoch(), end
        if is_rewound:
            self._sampling = None
        elif self._sampling is not None:
            self._sampling.commit(self.tokens[self.num_committed : end])
        self.num_committed = end

    def begin_epoch(self) -> int:
        """A new epoch's number, for an epoch that begins now or may begin later."""
        self._last_epoch += 1
        return self._last_epoch

    def grant(
        self, window: int, num_alternates: int = 0, *, is_awaited: bool = False, least_chance: float = 0.0
    ) -> None:
        """Set how long the chain may become, the least probability that it is right, and the number of alternates.

        There are no alternates with a mask, which fits one chain only, or with another vocabulary.
        """
        self.window, self.is_awaited, self.least_chance = window, is_awaited, least_chance
        self.num_alternates = num_alternates if self._translation.is_identity and not self._is_masked else 0

    def check(self, vocab_size: int) -> None:
        """Raise ValueError if no token of a vocabulary of this size can be drawn with these sampling parameters."""
        if any(token_id >= vocab_size for token_id in [*self._masked_ids, *self._params.named_ids]):
            raise ValueError(f"token ids must be below {vocab_size}")
        self._new_sampling()  # the sampler checks the rest

    def has_tokens(self, target_ids: Seq[int]) -> bool:
        """Whether the target's vocabulary has these ids."""
        return max(target_ids, default=0) < self._translation.target_size

    def next_run(self) -> Run:
        """The part of the chain that the target may be sent and has not been sent yet, in its tokens."""
        run = self._translation.run(self.chain, max(0, self.num_sent - self.num_committed), self.window)
        self.epoch = self.begin_epoch() if run.is_revised else self.epoch
        self.num_sent = len(self.tokens)
        return run

    def predicted(self, token_ids: Seq[int], *, num_asked: int = 0) -> None:
        """Append predictions to the chain, which stops growing for now if they are fewer than asked for."""
        self.tokens.extend(token_ids)
        self.num_predicted += len(token_ids)
        self.has_ended = self.least_chance > 0 and 0 < len(token_ids) < num_asked
        if self.has_ended:
            self.window = min(self.window, self._translation.num_sent(self.chain))

    @property
    def _is_masked(self) -> bool:
        """Whether every draw has a mask."""
        return self._grammar is not None or self._params.allowed_tokens is not None

    @property
    def _num_own_prompt(self) -> int | None:
        """The prompt's length in the draft's own tokens; None while part of the prompt is missing."""
        return self._translation.own_length(self._num_prompt)

    def _new_sampling(self) -> SamplingState:
        return new_sampling_state(
            self._params,
            prompt=self.tokens[: self._num_own_prompt],
            min_tokens=self._min_tokens,
            masked_ids=self._masked_ids,
        )


def _common_length(ours: Seq[int], theirs: Seq[int]) -> int:
    if ours == theirs:
        return len(ours)
    for index, (our_token, their_token) in enumerate(zip(ours, theirs, strict=False)):
        if our_token != their_token:
            return index
    return min(len(ours), len(theirs))
