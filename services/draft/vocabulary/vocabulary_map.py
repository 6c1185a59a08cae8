"""VocabularyMap: maps a target's vocabulary to the draft's, where they are not the same."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from services.draft.vocabulary.retokenizer import Retokenizer
from services.draft.vocabulary.text_codec import TextCodec
from services.engine.allowed_tokens import AllowedTokens
from services.engine.decoder.native import NoiseIds
from services.engine.sampling_params import SamplingParams
from services.engine.text.tokenizer import Tokenizer

_NO_PARTNER = -1
_BEYOND = chr(256)  # sorts after every byte


class VocabularyMap:
    """Tokens with the same bytes are partners; if several tokens of a vocabulary have the same bytes, the last one is.

    Through tokens, the draft reads every token of the target, spelled with its own where there is no partner, and
    predicts those of its tokens that have one: the common vocabulary of "Accelerating LLM Inference with Lossless
    Speculative Decoding Algorithms for Heterogeneous Vocabularies" (Timor et al., arXiv 2502.05202), here with the
    noise of the target's tokens, so that both still make the same draw. Through bytes it predicts any of its tokens,
    and the target is sent their text in its own (string-level exact match, ibid.); a token without a partner has the
    noise of the target's token that its bytes begin with.
    """

    def __init__(
        self, own: Tokenizer, target: Tokenizer, *, own_size: int, target_size: int, enough: float = 0.0
    ) -> None:
        """The sizes are those of the models, which may be padded beyond their tokenizers.

        The translation is through tokens if both have the share `enough` of the larger vocabulary, without padding.
        """
        self.target_size = target_size
        self._own, self._target = Retokenizer(own, own_size), Retokenizer(target, target_size)
        self._own_tokens: dict[int, tuple[int, ...]] = {}
        self._partners = np.full(own_size, _NO_PARTNER, dtype=np.int32)
        for key, own_id in self._own.ids.items():
            self._partners[own_id] = self._target.ids.get(key, _NO_PARTNER)
        self.through_bytes = self.num_shared < enough * max(len(self._own.ids), len(self._target.ids))
        marks = {own_id: chr(256 + index) for index, own_id in enumerate(self._shared_special_ids())}
        self.own = TextCodec(self._own, marks)
        self.target = TextCodec(self._target, {self.to_target(own_id): mark for own_id, mark in marks.items()})
        unmatched = sorted(
            (data.decode("latin-1"), own_id)
            for (data, is_special), own_id in self._own.ids.items()
            if not is_special and not self.has_partner(own_id)
        )
        self._unmatched = [text for text, _ in unmatched]
        self._unmatched_ids = np.array([own_id for _, own_id in unmatched], dtype=np.int32)
        self.noise_ids = NoiseIds(self._first_ids() if self.through_bytes else self._partners)

    def padded_to(self, target_size: int) -> "VocabularyMap":
        """The same map for a target's model whose size differs in padding only."""
        padded = copy(self)
        padded.target_size = target_size
        return padded

    @property
    def own_size(self) -> int:
        """The vocabulary size of the draft's model."""
        return len(self._partners)

    @property
    def num_shared(self) -> int:
        """The number of tokens that both have."""
        return int((self._partners != _NO_PARTNER).sum())

    def has_partner(self, own_id: int) -> bool:
        """Whether the target has this token of ours too."""
        return self.to_target(own_id) != _NO_PARTNER

    def to_target(self, own_id: int) -> int:
        """The target's id of this token of ours, -1 without a partner."""
        return int(self._partners[own_id])

    def partners(self, target_ids: Iterable[int]) -> list[int]:
        """Our own ids of those of the target's tokens that have a partner."""
        own_ids = ((self._own.ids.get(self._key(target_id)), target_id) for target_id in target_ids)
        return [own_id for own_id, target_id in own_ids if own_id is not None and self.to_target(own_id) == target_id]

    def own_params(self, params: SamplingParams) -> SamplingParams:
        """The sampling parameters in our own ids."""
        partners = ((self.partners([token_id]), bias) for token_id, bias in params.logit_bias.items())
        return replace(
            params,
            logit_bias={own_id: bias for own_ids, bias in partners for own_id in own_ids},
            allowed_tokens=params.allowed_tokens and self._own_allowed(params.allowed_tokens),
            dry_breaker_ids=tuple(self.partners(params.dry_breaker_ids)),
            suppressed_ids=tuple(self.partners(params.suppressed_ids)),
            begin_suppressed_ids=tuple(self.partners(params.begin_suppressed_ids)),
            bad_words=tuple(own for word in params.bad_words if len(own := tuple(self.partners(word))) == len(word)),
        )

    def own_tokens(self, target_id: int) -> tuple[int, ...]:
        """A target's token in the draft's: its partner, or else its bytes split greedily into the longest tokens."""
        if target_id >= self._target.tokenizer.vocab_size:
            return ()
        if target_id not in self._own_tokens:
            own_id, (data, _) = self._own.ids.get(self._key(target_id)), self._key(target_id)
            own_ids = (piece.token_id for piece in self._own.split(data)) if own_id is None else (own_id,)
            self._own_tokens[target_id] = tuple(own_ids)
        return self._own_tokens[target_id]

    def longer_ids(self, text: str) -> NDArray[np.int32]:
        """Our own tokens without a partner that begin with this text (see `TextCodec`) and are longer."""
        first, end = bisect_right(self._unmatched, text), bisect_left(self._unmatched, text + _BEYOND)
        return self._unmatched_ids[first:end]

    def _key(self, target_id: int) -> tuple[bytes, bool]:
        return self._target.tokenizer.token_bytes(target_id), self._target.tokenizer.is_special(target_id)

    def _own_allowed(self, allowed: AllowedTokens) -> AllowedTokens | None:
        """Our own tokens whose partners are allowed; None through bytes, where any token may come next."""
        return None if self.through_bytes else allowed.partners(self._partners)

    def _shared_special_ids(self) -> list[int]:
        return [own_id for (_, is_special), own_id in self._own.ids.items() if is_special and self.has_partner(own_id)]

    def _first_ids(self) -> NDArray[np.int32]:
        """For each token of ours, its partner or else the target's token that its bytes begin with; [own_size]."""
        first_ids = self._partners.copy()
        for text, own_id in zip(self._unmatched, self._unmatched_ids, strict=True):
            if (first_id := self._target.first(text.encode("latin-1"))) is not None:
                first_ids[own_id] = first_id
        return first_ids
