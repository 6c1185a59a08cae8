"""Vocabularies: the targets' vocabularies that the draft can predict for, and how."""

import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from services.draft.vocabulary.byte_translation import ByteTranslation
from services.draft.vocabulary.identity_translation import IdentityTranslation
from services.draft.vocabulary.token_translation import TokenTranslation
from services.draft.vocabulary.translation import Translation
from services.draft.vocabulary.vocabulary_map import VocabularyMap
from services.engine.events import VocabularyMatch
from services.engine.sampling_params import SamplingParams
from services.engine.text.tokenizer import Tokenizer


class Way(StrEnum):
    """How predictions are translated for a target with another vocabulary."""

    AUTO = "auto"
    INTERSECTION = "intersection"
    BYTES = "bytes"


_MOST_MAPS = 4  # per vocabulary: models that share one differ in their padding
# The share of the larger vocabulary that both must have for the translation through tokens.
_ENOUGH = {Way.AUTO: 0.9, Way.INTERSECTION: 0.0, Way.BYTES: math.inf}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A target's vocabulary as the draft knows it; `map` is None if no translation is needed."""

    match: VocabularyMatch
    num_shared: int
    size: int
    map: VocabularyMap | None = None

    def translation(self, params: SamplingParams) -> Translation:
        """The translation of a new sequence with these sampling parameters."""
        if self.map is None:
            return IdentityTranslation(self.size)
        return translation_along(self.map, params)


class Vocabularies:
    """The draft's own vocabulary, and the targets' that it was configured with."""

    def __init__(
        self, own: Tokenizer, others: Iterable[Tokenizer], *, size: int, translates: bool, way: Way = Way.AUTO
    ) -> None:
        """`size` is that of the draft's model; `translates` is whether its device can draw for another vocabulary.

        By default, the translation is through tokens if the two have nearly all of them in common, else through bytes.
        """
        self._own = own
        self._way = way
        self._size = size
        self._translates = translates
        self._own_fingerprint = own.fingerprint()
        self._known = {tokenizer.fingerprint(): tokenizer for tokenizer in [*others, own]}
        self._made: dict[tuple[str, int], Vocabulary] = {}  # by fingerprint and the ids that have bytes
        self._finding = threading.Lock()

    def find(self, fingerprint: str, size: int) -> Vocabulary | None:
        """The vocabulary of a target whose model has `size` ids (0: unknown), which takes a second the first time.

        None if it is not known here. Padding makes no difference: models of one tokenizer may have different sizes.
        """
        target, is_same = self._known.get(fingerprint), fingerprint == self._own_fingerprint
        if target is None or not (is_same or self._translates):
            return None
        with self._finding:
            if not self._translates or (is_same and size in {0, self._size}):
                return Vocabulary(VocabularyMatch.SAME, self._size, self._size)
            return self._find_map(target, fingerprint, size or target.vocab_size, is_same=is_same)

    def _find_map(self, target: Tokenizer, fingerprint: str, size: int, *, is_same: bool) -> Vocabulary | None:
        """A map made once for all sizes that differ in padding only; None if too many other sizes were requested."""
        made = (fingerprint, min(size, target.vocab_size))
        if made not in self._made:
            if len(self._made) >= _MOST_MAPS * len(self._known):
                return None
            self._made[made] = self._make(target, made[1], is_same=is_same)
        vocabulary = self._made[made]
        assert vocabulary.map is not None
        return replace(vocabulary, size=size, map=vocabulary.map.padded_to(size))

    def _make(self, target: Tokenizer, size: int, *, is_same: bool) -> Vocabulary:
        enough = 0.0 if is_same else _ENOUGH[self._way]
        vocabulary = VocabularyMap(self._own, target, own_size=self._size, target_size=size, enough=enough)
        return Vocabulary(_match(vocabulary, is_same=is_same), vocabulary.num_shared, size, vocabulary)


def translation_along(vocabulary: VocabularyMap, params: SamplingParams) -> Translation:
    """The translation between two different vocabularies, for a new sequence with these sampling parameters."""
    if vocabulary.through_bytes:
        return ByteTranslation(vocabulary, is_sampled=params.temperature > 0)
    return TokenTranslation(vocabulary)


def _match(vocabulary: VocabularyMap, *, is_same: bool) -> VocabularyMatch:
    if is_same:
        return VocabularyMatch.SAME
    return VocabularyMatch.BYTES if vocabulary.through_bytes else VocabularyMatch.TRANSLATED
