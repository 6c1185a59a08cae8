"""AllowedTokens: the set of tokens that a request allows to be sampled."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WORD_BYTES = 4  # bytes of one word of the sampler's masks


@dataclass(frozen=True, slots=True)
class AllowedTokens:
    """A set of token ids: token i is bit i % 8 of byte i // 8; tokens beyond the last byte are not in the set."""

    bits: bytes

    @classmethod
    def of(cls, token_ids: Seq[int], *, vocab_size: int) -> "AllowedTokens":
        """Return the set of these ids, which must all be in the vocabulary."""
        is_allowed = np.zeros(vocab_size, dtype=np.uint8)
        is_allowed[np.fromiter(token_ids, dtype=np.int64, count=len(token_ids))] = 1
        return cls(np.packbits(is_allowed, bitorder="little").tobytes())

    def __contains__(self, token_id: int) -> bool:
        """Return whether a token may be sampled."""
        return token_id < 8 * len(self.bits) and bool(self.bits[token_id // 8] >> token_id % 8 & 1)

    def partners(self, partners: NDArray[np.int32]) -> "AllowedTokens":
        """Return the tokens of another vocabulary whose partner is in the set; `partners` has -1 for no partner."""
        is_allowed = np.unpackbits(np.frombuffer(self.bits, dtype=np.uint8), bitorder="little")
        return AllowedTokens(np.packbits(np.append(is_allowed, 0)[partners], bitorder="little").tobytes())

    def restrict(self, masks: NDArray[np.uint32] | None, num_rows: int) -> NDArray[np.uint32]:
        """Return the sampler's masks restricted to this set; `masks` None allows all tokens.  # [num_rows, words]"""
        num_words = -(-len(self.bits) // _WORD_BYTES) if masks is None else masks.shape[1]
        mask = np.frombuffer(self.bits.ljust(_WORD_BYTES * num_words, b"\0"), dtype="<u4", count=num_words)
        return np.tile(mask, (num_rows, 1)) if masks is None else masks & mask
