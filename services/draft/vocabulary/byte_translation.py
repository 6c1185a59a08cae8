"""ByteTranslation: translates between two vocabularies through the bytes that their tokens stand for."""

from bisect import bisect_right
from collections.abc import Sequence as Seq
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from services.draft.vocabulary.mapped_translation import MappedTranslation
from services.draft.vocabulary.translation import OwnCommit, Run, appended
from services.draft.vocabulary.vocabulary_map import VocabularyMap

_NUM_RETOKENIZED = 4  # own tokens before new text that are encoded again with it


class ByteTranslation(MappedTranslation):
    """The draft predicts any of its own tokens; the target is sent their text in its tokens (`TextCodec`).

    Both have the same text, cut into tokens differently: the committed text may end inside a token of the chain, and a
    commit agrees with the chain if their texts agree. But if the committed text ends inside a token that the target
    has too, the chain is wrong: the target would have drawn that token.
    """

    def __init__(self, vocabulary: VocabularyMap, *, is_sampled: bool) -> None:
        """Sampled tokens are drawn one at a time: a draw's noise is known only once all tokens before it are."""
        super().__init__(vocabulary)
        self._is_sampled = is_sampled
        self._committed: list[int] = []  # the target's tokens
        self._text = ""  # of these tokens
        self._ends = [0]  # in the text, after each number of these tokens
        self._own_ends = [0]  # in the text, after each number of our own tokens
        self._sent: list[int] = []  # the target's tokens after the text
        self._taken_back: int | None = None  # our own last token, to be drawn again

    def draws_singly(self, chain: Seq[int]) -> bool:
        """Whether tokens are sampled, or the next draw has a mask."""
        return self._is_sampled or (not chain and self._taken_back is not None)

    def commit(self, tokens: Seq[int], num_committed: int, position: int, token_ids: Seq[int]) -> OwnCommit:
        """Keep the chain if it spells the new text, in whatever tokens; otherwise keep the part that agrees."""
        new = appended(self._committed, position, token_ids)
        chain = [self.vocabulary.own.text(token_id) for token_id in tokens[num_committed:]]
        predicted = self._text[: self._own_ends[-1]] + "".join(chain)
        self._own_ends[-1:] = accumulate(map(len, chain), initial=self._own_ends[-1])
        self._replace(position, token_ids)
        end = bisect_right(self._own_ends, len(self._text)) - 1  # our own tokens within the text
        if new is None or not predicted.startswith(self._text) or self._is_refused(tokens[end : end + 1], end):
            self._sent.clear()
            agreed = _common_length(predicted, self._text, min(len(predicted), self._ends[position]))
            return self._retokenize(tokens, num_committed, agreed)
        is_sent = self._sent[: len(new)] == [*new]
        self._sent = self._sent[len(new) :] if is_sent else []
        self._taken_back = None
        del self._own_ends[end + 1 :]
        return OwnCommit(num_committed, tokens[num_committed:end], keeps_epoch=is_sent)

    def own_length(self, num_tokens: int) -> int | None:
        """The number of our own tokens within the target's first `num_tokens`; None before these are committed."""
        return bisect_right(self._own_ends, self._ends[num_tokens]) - 1 if num_tokens < len(self._ends) else None

    def target_position(self, chain: Seq[int]) -> int:
        """The target's position of the token after the chain, as far as it is known yet."""
        if not chain and self._taken_back is not None:
            return bisect_right(self._ends, self._own_ends[-1]) - 1
        return len(self._committed) + len(self.vocabulary.target.tokenize(*self._ahead(chain)))

    def num_sent(self, chain: Seq[int]) -> int:  # noqa: ARG002
        """The number of the target's tokens that were sent."""
        return len(self._sent)

    def run(self, chain: Seq[int], num_sent: int, window: int) -> Run:  # noqa: ARG002 - it has a record of its own
        """The chain's text in the target's tokens, without those that were sent.

        With more text the last tokens may become others: if tokens that were sent have changed, all are sent again.
        """
        pieces = self.vocabulary.target.tokenize_whole(*self._ahead(chain))
        token_ids = [piece.token_id for piece in pieces[:window]]
        num_agreed = min(len(self._sent), len(token_ids))
        is_revised = self._sent[:num_agreed] != token_ids[:num_agreed]
        start = 0 if is_revised else len(self._sent)
        self._sent[start:] = token_ids[start:]
        return Run(len(self._committed) + start, token_ids[start:], is_revised=is_revised)

    def mask(self, chain: Seq[int]) -> NDArray[np.uint32] | None:
        """Where a token was taken back, that token and the longer ones that begin with it; else None."""
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
        """Whether the committed text ends inside a token that the target has too and could have drawn there."""
        start = self._own_ends[end]
        is_inside = bool(next_ids) and start < len(self._text)
        return is_inside and self.vocabulary.has_partner(next_ids[0]) and _contains(self._ends, start)

    def _retokenize(self, tokens: Seq[int], num_committed: int, agreed: int) -> OwnCommit:
        """Keep our own tokens as far as the text agrees, and encode the rest.

        The last token is taken back if longer tokens without a partner begin with it: the text may end inside one of
        them (token healing).
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
        """The chain's text after the committed text, and the committed text."""
        text = "".join(map(self.vocabulary.own.text, chain))
        return text[len(self._text) - self._own_ends[-1] :], self._text


def _contains(ends: list[int], end: int) -> bool:
    return ends[bisect_right(ends, end) - 1] == end


def _common_length(ours: str, theirs: str, start: int) -> int:
    """The length of two texts' common prefix, which is at least `start`."""
    length = min(len(ours), len(theirs))
    return next((index for index in range(start, length) if ours[index] != theirs[index]), length)
