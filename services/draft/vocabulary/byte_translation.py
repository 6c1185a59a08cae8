"""ByteTranslation: the way between two vocabularies through the bytes that their tokens stand for."""

from bisect import bisect_right
from collections.abc import Sequence as Seq
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from services.draft.vocabulary.mapped_translation import MappedTranslation
from services.draft.vocabulary.translation import OwnCommit, Run, appended
from services.draft.vocabulary.vocabulary_map import VocabularyMap

_NUM_RETOKENIZED = 4  # own tokens in front of new text that it may change


class ByteTranslation(MappedTranslation):
    """The draft predicts any of its tokens, and the target is told what these spell in its own (`TextCodec`).

    Both have the same text, cut differently: the committed text may end inside of a token of the chain, and what the
    target commits agrees with the chain where the text does. But a token that the target has too it would have drawn
    itself: it is not in the middle of such a one.
    """

    def __init__(self, vocabulary: VocabularyMap, *, is_sampled: bool) -> None:
        """A draw is at its place in the noise only if all before it are known: sampled ones are made one by one."""
        super().__init__(vocabulary)
        self._is_sampled = is_sampled
        self._committed: list[int] = []  # the target's tokens
        self._text = ""  # that they are
        self._ends = [0]  # of it, behind so many of them
        self._own_ends = [0]  # of it, behind so many of our own tokens
        self._told: list[int] = []  # the target's tokens behind it
        self._taken_back: int | None = None  # our own last token, to be drawn anew

    def draws_singly(self, chain: Seq[int]) -> bool:
        """Where a draw is to be placed in the noise, or is masked."""
        return self._is_sampled or (not chain and self._taken_back is not None)

    def commit(self, tokens: Seq[int], num_committed: int, position: int, token_ids: Seq[int]) -> OwnCommit:
        """The chain is kept where it spells the new text, in whatever tokens; else what it spells of it is."""
        new = appended(self._committed, position, token_ids)
        chain = [self.vocabulary.own.text(token_id) for token_id in tokens[num_committed:]]
        predicted = self._text[: self._own_ends[-1]] + "".join(chain)
        self._own_ends[-1:] = accumulate(map(len, chain), initial=self._own_ends[-1])
        self._replace(position, token_ids)
        end = bisect_right(self._own_ends, len(self._text)) - 1  # our own tokens within the text
        if new is None or not predicted.startswith(self._text) or self._is_refused(tokens[end : end + 1], end):
            self._told.clear()
            agreed = _common_length(predicted, self._text, min(len(predicted), self._ends[position]))
            return self._retokenize(tokens, num_committed, agreed)
        is_told = self._told[: len(new)] == [*new]
        self._told = self._told[len(new) :] if is_told else []
        self._taken_back = None
        del self._own_ends[end + 1 :]
        return OwnCommit(num_committed, tokens[num_committed:end], keeps_epoch=is_told)

    def own_length(self, num_tokens: int) -> int | None:
        """How many of our own tokens lie within the target's first ones; None before they are committed."""
        return bisect_right(self._own_ends, self._ends[num_tokens]) - 1 if num_tokens < len(self._ends) else None

    def target_position(self, chain: Seq[int]) -> int:
        """Where the target sees what comes behind the chain, as far as one can tell yet."""
        if not chain and self._taken_back is not None:
            return bisect_right(self._ends, self._own_ends[-1]) - 1
        return len(self._committed) + len(self.vocabulary.target.tokenize(*self._ahead(chain)))

    def num_told(self, chain: Seq[int]) -> int:  # noqa: ARG002
        """Tokens that were told."""
        return len(self._told)

    def run(self, chain: Seq[int], num_told: int, window: int) -> Run:  # noqa: ARG002 - it knows what was told
        """What the chain's text is in the target's tokens.

        The last of them may be the beginning of others: where more text makes others of what was told, it is told anew.
        """
        pieces = self.vocabulary.target.tokenize_whole(*self._ahead(chain))
        token_ids = [piece.token_id for piece in pieces[:window]]
        num_agreed = min(len(self._told), len(token_ids))
        is_revised = self._told[:num_agreed] != token_ids[:num_agreed]
        start = 0 if is_revised else len(self._told)
        self._told[start:] = token_ids[start:]
        return Run(len(self._committed) + start, token_ids[start:], is_revised=is_revised)

    def mask(self, chain: Seq[int]) -> NDArray[np.uint32] | None:
        """In the place of a token that was taken back, that one or those that go on from it."""
        if chain or self._taken_back is None:
            return None
        is_allowed = np.zeros(-(-self.vocabulary.own_size // 32) * 32, dtype=np.uint8)
        is_allowed[[self._taken_back, *self.vocabulary.longer_ids(self._text[self._own_ends[-1] :])]] = 1
        return np.packbits(is_allowed, bitorder="little").view("<u4").reshape(1, -1)

    def _replace(self, position: int, token_ids: Seq[int]) -> None:
        texts = [self.vocabulary.target.text(token_id) for token_id in token_ids]
        start = self._ends[position]
        self._committed[position:] = token_ids
        self._text = self._text[:start] + "".join(texts)
        self._ends[position:] = accumulate(map(len, texts), initial=start)

    def _is_refused(self, next_ids: Seq[int], end: int) -> bool:
        """Whether the committed text ends inside of a token that the target has too and could have drawn there."""
        start = self._own_ends[end]
        is_inside = bool(next_ids) and start < len(self._text)
        return is_inside and self.vocabulary.has_partner(next_ids[0]) and _contains(self._ends, start)

    def _retokenize(self, tokens: Seq[int], num_committed: int, agreed: int) -> OwnCommit:
        """Keep our own tokens as far as text agrees, and spell the rest.

        The last token is taken back where longer ones begin as it does that the target does not have: it may be in the
        middle of one of them (token healing).
        """
        start = max(0, bisect_right(self._own_ends, agreed) - 1 - _NUM_RETOKENIZED)
        before, text = self._text[: self._own_ends[start]], self._text[self._own_ends[start] :]
        pieces = self.vocabulary.own.tokenize(text, before)
        self._taken_back = None
        if pieces and start + len(pieces) > 1 and self.vocabulary.longer_ids(text[-pieces[-1].num_bytes :]).size:
            self._taken_back = pieces.pop().token_id
        lengths = (piece.num_bytes for piece in pieces)
        self._own_ends[start:] = accumulate(lengths, initial=self._own_ends[start])
        position = min(start, num_committed)
        own_ids = [*tokens[position:start], *(piece.token_id for piece in pieces)]
        return OwnCommit(position, own_ids, keeps_chain=False, keeps_epoch=False)

    def _ahead(self, chain: Seq[int]) -> tuple[str, str]:
        """The text that the chain has beyond the committed one, and that."""
        text = "".join(map(self.vocabulary.own.text, chain))
        return text[len(self._text) - self._own_ends[-1] :], self._text


def _contains(ends: list[int], end: int) -> bool:
    return ends[bisect_right(ends, end) - 1] == end


def _common_length(ours: str, theirs: str, start: int) -> int:
    """How far two texts agree that do so up to `start`."""
    length = min(len(ours), len(theirs))
    return next((index for index in range(start, length) if ours[index] != theirs[index]), length)
