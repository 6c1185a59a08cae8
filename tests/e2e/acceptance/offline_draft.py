"""OfflineDraft: what a draft predicts of a text, without its service."""

from pathlib import Path

from services.draft.drafted_sequence import DraftedSequence
from services.draft.multi_step_runner import MultiStepRunner, ScheduledTokens
from services.draft.vocabulary.identity_translation import IdentityTranslation
from services.draft.vocabulary.vocabularies import Vocabularies, translation_along
from services.draft.vocabulary.vocabulary_map import VocabularyMap
from services.engine.config import EngineConfig
from services.engine.decoder.native import Sampler, isas
from services.engine.loaded_model import LoadedModel
from services.engine.sampling_params import SamplingParams
from services.engine.text.tokenizer import Tokenizer

COUNT = 6  # tokens predicted from each place


class OfflineDraft:
    """A draft without its service."""

    def __init__(self, folder: Path) -> None:
        config = EngineConfig(model=folder, isa=isas()[0], threads=1, kv_blocks=16, max_rows=256)
        self.model = LoadedModel.load(config)
        self.size = self.model.checkpoint.config.vocab_size
        sampler = Sampler(self.model.device)
        self._runner = MultiStepRunner(self.model.decoder, sampler, max_rows=256, max_sequences=1, max_blocks=16)

    def map_to(self, target: Tokenizer, size: int) -> VocabularyMap | None:
        vocabularies = Vocabularies(self.model.tokenizer, [target], size=self.size, translates=True)
        vocabulary = vocabularies.find(target.fingerprint(), size)
        assert vocabulary is not None
        return vocabulary.map

    def predict(self, tokens: list[int], params: SamplingParams, vocabulary: VocabularyMap | None) -> list[int]:
        """What it predicts after some tokens of a target, half of them prompt, in the target's tokens."""
        translation = IdentityTranslation(self.size) if vocabulary is None else translation_along(vocabulary, params)
        sequence = DraftedSequence(params, translation, num_prompt=len(tokens) // 2, min_tokens=0, masked_ids=[])
        sequence.commit(0, tokens)
        self.model.blocks.grow(sequence.text, len(sequence.tokens) + COUNT)
        (drawn,) = self._runner.extend([ScheduledTokens(sequence, len(sequence.tokens), COUNT)])
        sequence.predicted(drawn)
        run = sequence.next_run()
        self.model.blocks.shrink(sequence.text, 0)
        assert run.position == len(tokens)
        return [*run.token_ids]


def texts(tokenizer: Tokenizer) -> list[list[int]]:
    """Pieces of source code, in a target's tokens."""
    ids = tokenizer.encode((Path(__file__).parents[1] / "matrix" / "streams.py").read_text())
    return [ids[start : start + 40] for start in range(0, 1200, 60)]
