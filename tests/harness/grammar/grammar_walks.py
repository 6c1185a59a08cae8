"""Walks through random grammars, as one text alone takes them and as one does whose tokens are predicted."""

import functools
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLParserLimits

from services.engine.grammar.compiler import GrammarCompiler
from services.engine.grammar.grammar import Grammar
from services.engine.grammar.source import GrammarSource
from services.engine.grammar.state import GrammarState
from services.engine.text.tokenizer import Tokenizer
from tests.harness.grammar.random_grammars import random_source

_PREFERRED = {b" ": 0.5, b'",:[]{};': 0.6}  # how often a token of such bytes is drawn where there is one: it leads on
_NUM_PREDICTED = (0, 1, 2, 2, 2, 3, 4)
_LENGTH = 40
_TIGHT_LIMITS: tuple[dict[str, Any], ...] = (
    {"max_lexer_states": 60},
    {"step_lexer_fuel": 400},
    {"step_max_items": 300},
    {"max_items_in_row": 12},
)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """What the texts are made of; `end_id` ends them."""

    tokenizer: Tokenizer
    size: int
    end_id: int

    @functools.cached_property
    def compiler(self) -> GrammarCompiler:
        return GrammarCompiler(self.tokenizer, vocab_size=self.size)

    @functools.cached_property
    def preferred(self) -> list[tuple[np.ndarray, float]]:
        """Masks of tokens, each with how often one of them is drawn where there is one."""
        return [(self._mask_of(some), share) for some, share in _PREFERRED.items()]

    @functools.cached_property
    def any_structure(self) -> np.ndarray:
        """A mask of all that is preferred."""
        return np.bitwise_or.reduce([mask for mask, _ in self.preferred])

    def _mask_of(self, some: bytes) -> np.ndarray:
        padded = np.zeros((self.size + 32) // 32 * 32, dtype=bool)
        tokens = [self.tokenizer.token_bytes(token_id) for token_id in range(self.size)]
        padded[: self.size] = [bool(token) and set(token) <= set(some) for token in tokens]
        return np.packbits(padded, bitorder="little").view(np.uint32)

    def draw(self, mask: np.ndarray, rng: random.Random) -> int | None:
        """A token that a mask allows; None where it allows none."""
        for preferred, share in self.preferred:
            if rng.random() < share and (mask & preferred).any():
                mask = mask & preferred
                break
        ids = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")[: self.size])
        return int(ids[rng.randrange(len(ids))]) if len(ids) else None


@dataclass
class Walk:
    """One grammar and one text in it, drawn at random from what each mask allows."""

    vocabulary: Vocabulary
    source: GrammarSource
    limits: LLParserLimits
    seed: int
    tokens: list[int] = field(default_factory=list)
    masks: list[np.ndarray] = field(default_factory=list)
    """What may be drawn before each token and after the last, without any predictions."""

    def compile(self) -> Grammar | None:
        """The grammar with matchers of its own, or None where there is no text in it."""

        def read() -> LLMatcher:
            return LLMatcher(self.vocabulary.compiler._tokenizer, text, log_level=0, limits=self.limits)

        text = self.source.serialized(self.vocabulary.compiler._vocabulary, lambda *_: True)
        if read().is_error():
            return None
        return Grammar(
            self.source, read, self.vocabulary.compiler._threads, vocab_size=self.vocabulary.size, looks_ahead=True
        )

    def draw(self, mask: np.ndarray, position: int) -> int | None:
        """The token that a mask lets be drawn at a position, always the same; None where it allows none."""
        return self.vocabulary.draw(mask, random.Random(f"{self.seed} {position}"))

    def token(self, position: int) -> int | None:
        """The text's token at a position, or the one drawn after its last."""
        return self.tokens[position] if position < len(self.tokens) else self.draw(self.masks[-1], position)

    def follow_alone(self, state: GrammarState) -> None:
        """Draw the text, with no prediction."""
        while True:
            (mask,) = state.masks()
            self.masks.append(mask)
            token_id = self.draw(mask, len(self.tokens))
            if token_id in {None, self.vocabulary.end_id} or len(self.tokens) == _LENGTH:
                return
            self.tokens.append(token_id)
            state.advance([token_id])


def walk(vocabulary: Vocabulary, seed: int) -> Walk | None:
    """A text in a random grammar, at times with limits so tight that it becomes too costly; None if it has none."""
    rng = random.Random(seed)
    source = random_source(rng)
    limits = rng.choice(_TIGHT_LIMITS) if rng.random() < 0.25 else {}
    found = Walk(vocabulary, source, LLParserLimits(**limits, verbose_errors=False), seed)
    grammar = found.compile()
    if grammar is None:
        return None
    found.follow_alone(grammar.begin(stop_ids=[vocabulary.end_id]))
    return found


class PredictedWalk:
    """The same walk with predictions, a part of it received, and tokens taken back.

    A step is one token that is looked at ahead, follows or is taken back.
    """

    def __init__(self, alone: Walk) -> None:
        grammar, guide = alone.compile(), alone.compile()
        assert grammar is not None
        assert guide is not None
        self._alone = alone
        self._rng = random.Random(-alone.seed)
        self._position = self._rng.choice((0, 0, self._rng.randint(0, len(alone.tokens))))
        stop_ids = [alone.vocabulary.end_id]
        self._state = grammar.begin(alone.tokens[: self._position], stop_ids=stop_ids)
        self._guide = guide.matcher(stop_ids=stop_ids)  # knows what other texts there are
        self._kept = (self._state.snapshot(), self._guide.fork(), self._position)
        self.num_steps = 0

    def take(self, num_passes: int) -> None:
        """Draw the tokens as the engine does, some each time; raises AssertionError where one is another than alone."""
        for _ in range(num_passes):
            self._pass()
            if self._position == len(self._alone.tokens) and not self._alone.masks[-1].any():
                return  # there the engine ends the text, and takes nothing back
            if self._rng.random() < 0.4:
                self._take_back()

    def _pass(self) -> None:
        predictions = self._predictions()
        if self._rng.random() < 0.9:  # the engine always does
            predictions = predictions[: self._state.num_allowed(predictions)]
        masks = self._state.masks(predictions)
        self._check(np.array_equal(masks[0], self._alone.masks[self._position]), "mask")
        for row, mask in enumerate(masks):
            if row and not self._state.was_mask_right:
                return
            token_id = self._alone.draw(mask, self._position)
            self._check(token_id == self._alone.token(self._position), "token")
            if token_id is None or self._position == len(self._alone.tokens):
                return
            self._state.advance([token_id])
            self._position += 1
            self.num_steps += 1
            if row == len(predictions) or predictions[row] != token_id:
                return

    def _check(self, is_right: bool, what: str) -> None:
        assert is_right, f"seed {self._alone.seed}: the {what} at {self._position} is another one"

    def _take_back(self) -> None:
        state, guide, position = self._kept
        if self._rng.random() < 0.5:
            self.num_steps += self._position - position
            self._state, self._guide, self._position = state, guide, position
            self._state.restore(self._alone.tokens[:position])
        self._kept = (self._state.snapshot(), self._guide.fork(), self._position)

    def _predictions(self) -> list[int]:
        """What is right, another text of the grammar from somewhere on, and now and then nonsense."""
        self._guide.advance(self._alone.tokens[self._guide.num_tokens : self._position])
        count = self._rng.choice(_NUM_PREDICTED)
        tokens = self._alone.tokens[self._position : self._position + count]
        if self._rng.random() < 0.6:
            tokens = self._stray(tokens[: self._rng.choice((0, 0, count // 2))], count)
        self.num_steps += len(tokens)
        return tokens

    def _stray(self, tokens: list[int], count: int) -> list[int]:
        """These tokens and others after them, as the grammar allows but for one in ten."""
        guide = self._guide.fork()
        guide.advance(tokens)
        while len(tokens) < count:
            token_id = self._alone.vocabulary.draw(guide.mask(), self._rng)
            if token_id is None or self._rng.random() < 0.1:
                token_id = self._rng.randrange(self._alone.vocabulary.size)
            tokens.append(token_id)
            guide.advance([token_id])
        return tokens
