"""VocabularyMap: the way between a target's tokens and the draft's, where they are not the same."""

from collections.abc import Iterable

import numpy as np

from services.engine.native import NoiseIds
from services.engine.tokenizer import Tokenizer

_NO_PARTNER = -1


class VocabularyMap:
    """Tokens of the same bytes are partners; where several of a vocabulary have the same, its last one is.

    The draft reads every token of the target, spelled with its own where there is no partner, and predicts those of its
    tokens that have one: the common vocabulary of "Accelerating LLM Inference with Lossless Speculative Decoding
    Algorithms for Heterogeneous Vocabularies" (Timor et al., arXiv 2502.05202), here with the noise of the target's
    tokens, so that both still make the same draw.
    """

    def __init__(self, own: Tokenizer, target: Tokenizer, *, own_size: int, target_size: int) -> None:
        """The sizes are those of the models, which may be padded beyond their tokenizers."""
        self.target_size = target_size
        self._own_id = _ids_by_bytes(own, own_size)
        self._longest = max((len(data) for data, is_special in self._own_id if not is_special), default=0)
        self._target = target
        self._target_id = _ids_by_bytes(target, target_size)
        self._spellings: dict[int, tuple[int, ...]] = {}
        self._partners = np.full(own_size, _NO_PARTNER, dtype=np.int32)
        for key, own_id in self._own_id.items():
            self._partners[own_id] = self._target_id.get(key, _NO_PARTNER)
        self.noise_ids = NoiseIds(self._partners)

    @property
    def num_shared(self) -> int:
        """Tokens that the draft can predict."""
        return int((self._partners != _NO_PARTNER).sum())

    def to_target(self, own_id: int) -> int:
        """The partner of a token that the draft has drawn."""
        return int(self._partners[own_id])

    def partners(self, target_ids: Iterable[int]) -> list[int]:
        """Our own ids of those of the target's tokens that have a partner."""
        own_ids = ((self._own_id.get(self._key(target_id)), target_id) for target_id in target_ids)
        return [own_id for own_id, target_id in own_ids if own_id is not None and self.to_target(own_id) == target_id]

    def spell(self, target_id: int) -> tuple[int, ...]:
        """A target's token in the draft's: its partner, or as few tokens of its bytes as the longest ones make."""
        if target_id not in self._spellings:
            own_id = self._own_id.get(self._key(target_id))
            self._spellings[target_id] = self._split(self._key(target_id)[0]) if own_id is None else (own_id,)
        return self._spellings[target_id]

    def _key(self, target_id: int) -> tuple[bytes, bool]:
        return self._target.token_bytes(target_id), self._target.is_special(target_id)

    def _split(self, data: bytes) -> tuple[int, ...]:
        """Greedy; a byte that the draft has no token for is left out."""
        own_ids: list[int] = []
        start = 0
        while start < len(data):
            ends = range(min(len(data), start + self._longest), start, -1)
            end = next((end for end in ends if (data[start:end], False) in self._own_id), None)
            if end is not None:
                own_ids.append(self._own_id[data[start:end], False])
            start = end or start + 1
        return tuple(own_ids)


def _ids_by_bytes(tokenizer: Tokenizer, size: int) -> dict[tuple[bytes, bool], int]:
    """The last id of each token that stands for any bytes, by these and by whether it is a special one."""
    token_ids = range(min(size, tokenizer.vocab_size))
    keys = ((tokenizer.token_bytes(token_id), tokenizer.is_special(token_id)) for token_id in token_ids)
    return {key: token_id for token_id, key in enumerate(keys) if key[0]}
