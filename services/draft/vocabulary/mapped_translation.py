"""MappedTranslation: what the two ways between different vocabularies have in common."""

from abc import ABC, abstractmethod
from collections.abc import Sequence as Seq

from services.draft.vocabulary.vocabulary_map import VocabularyMap
from services.engine.decoder.native import SamplingState
from services.engine.sampling_params import SamplingParams


class MappedTranslation(ABC):
    """The part of a Translation that the vocabularies say, whatever was committed."""

    is_identity = False

    def __init__(self, vocabulary: VocabularyMap) -> None:
        self.vocabulary = vocabulary
        self.target_size = vocabulary.target_size

    @abstractmethod
    def target_position(self, chain: Seq[int]) -> int:
        """Where the target sees what comes behind the chain, as far as one can tell yet."""

    def own_ids(self, target_ids: Seq[int]) -> Seq[int]:
        """Those that have a partner."""
        return self.vocabulary.partners(target_ids)

    def own_params(self, params: SamplingParams) -> SamplingParams:
        """What is said of a token without a partner is left out."""
        return self.vocabulary.own_params(params)

    def align(self, sampling: SamplingState, chain: Seq[int]) -> None:
        """The sampler adds the chain's length to the position, which the target may have in fewer tokens."""
        position = max(0, self.target_position(chain) - len(chain))
        sampling.translate(self.vocabulary.noise_ids, position)
