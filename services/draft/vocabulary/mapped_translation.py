"""MappedTranslation: the common part of the two translations between different vocabularies."""

from abc import ABC, abstractmethod
from collections.abc import Sequence as Seq

from services.draft.vocabulary.vocabulary_map import VocabularyMap
from services.engine.decoder.native import SamplingState
from services.engine.sampling_params import SamplingParams


class MappedTranslation(ABC):
    """The part of a Translation that depends on the vocabularies alone, not on the committed tokens."""

    is_identity = False

    def __init__(self, vocabulary: VocabularyMap) -> None:
        self.vocabulary = vocabulary
        self.target_size = vocabulary.target_size

    @abstractmethod
    def target_position(self, chain: Seq[int]) -> int:
        """The target's position of the token after the chain, as far as it is known yet."""

    def own_ids(self, target_ids: Seq[int]) -> Seq[int]:
        """The partners of those ids that have one."""
        return self.vocabulary.partners(target_ids)

    def own_params(self, params: SamplingParams) -> SamplingParams:
        """The sampling parameters in the draft's ids, without those for tokens that have no partner."""
        return self.vocabulary.own_params(params)

    def align(self, sampling: SamplingState, chain: Seq[int]) -> None:
        """Set the noise's ids and position; the sampler adds the chain's length, which may be fewer target tokens."""
        position = max(0, self.target_position(chain) - len(chain))
        sampling.translate(self.vocabulary.noise_ids, position)
