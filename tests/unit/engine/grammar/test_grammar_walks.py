"""Random grammars: predictions, tokens taken back and continuations change no mask and no token."""

import itertools
from pathlib import Path

import pytest

from services.engine.text.tokenizer import Tokenizer
from tests.harness.grammar.grammar_walks import PredictedWalk, Vocabulary, walk
from tests.unit.sequences import END, VOCAB_SIZE, byte_tokenizer

DEMO = Tokenizer.from_folder(Path(__file__).parents[4] / "models" / "demo" / "target")
VOCABULARIES = {
    "demo": Vocabulary(DEMO, DEMO.vocab_size + 8, 0),  # padded, as a model's may be
    "bytes": Vocabulary(byte_tokenizer(), VOCAB_SIZE, END),
}
NUM_PASSES = 40  # of one walk
NUM_STEPS = 1_000  # millions are taken by the exhaustive tests
NUM_BLOCKS, BLOCK = 20, 250_000


def take(vocabulary: Vocabulary, first_seed: int, num_steps: int) -> None:
    """Take walks until they have come to so many steps."""
    taken = refused = 0
    for seed in itertools.count(first_seed):
        alone = walk(vocabulary, seed)
        if alone is None:
            refused += 1
            continue
        predicted = PredictedWalk(alone)
        predicted.take(NUM_PASSES)
        taken += predicted.num_steps
        if taken >= num_steps:
            assert refused < (seed - first_seed) / 10
            return


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_predicted_text_is_the_one_that_is_drawn_alone(name):
    take(VOCABULARIES[name], 0, NUM_STEPS)


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("block", range(1, NUM_BLOCKS + 1))
@pytest.mark.parametrize("name", VOCABULARIES)
def test_ten_million_steps_change_no_mask_or_token(name, block):
    take(VOCABULARIES[name], block * BLOCK, BLOCK)
