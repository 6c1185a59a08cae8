"""An attached drafter that predicts blocks: its context, its rows, and the draws from them."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, product

import numpy as np
import pytest
import torch

from services.engine.checkpoint.model_config import Attention, FeatureBlock, Features, ModelConfig, QkNorm
from services.engine.decoder.native import Batch, DecoderConfig
from tests.native.drafting.test_features import NUM_ROWS, SMALL, Pair, Reference, error, fill, spread, state
from tests.native.harness.devices import DEVICES
from tests.native.harness.random_models import PLAIN
from tests.native.harness.reference_decoder import KvCache
from tests.native.harness.row_invariance import same_bits

MASK = 77
SIZE = 7
AHEAD = Attention(looks_ahead=True)
DRAFTER = replace(
    PLAIN,
    layers=(AHEAD, AHEAD),
    features=Features(count=3, width=PLAIN.hidden_size, block=FeatureBlock(size=SIZE, mask_token=MASK)),
)


def with_features(drafter: ModelConfig = DRAFTER, *, first_predicts: bool = False, **changes: object) -> ModelConfig:
    block = FeatureBlock(size=SIZE, mask_token=MASK, first_predicts=first_predicts)
    return replace(drafter, features=replace(drafter.features, block=block, **changes))


DRAFTERS = {
    "shares both tables, norms of heads": replace(DRAFTER, qk_norm=QkNorm.HEAD),
    "a small head, its first row predicts": with_features(first_predicts=True, head_size=len(SMALL)),
    "windows without and with a look ahead, own tables": with_features(
        replace(DRAFTER, layers=(Attention(window=9), Attention(window=12, looks_ahead=True))),
        own_embedding=True,
        head_size=PLAIN.vocab_size,
    ),
    "of another width, biases": with_features(
        replace(DRAFTER, hidden_size=36, attention_bias=True, output_bias=True),
        own_embedding=True,
        head_size=len(SMALL),
    ),
}


def store(pair: Pair, rows: list[tuple[int, int]]) -> None:
    """Store the context of these rows."""
    pair.drafter.decoder.read_features(pair.target.run(rows), range(len(rows)))
    batch = pair.drafter.batch
    batch.sequences[: len(rows)] = [sequence for sequence, _ in rows]
    batch.positions[: len(rows)] = [position for _, position in rows]
    batch.num_rows, batch.num_sequences, batch.num_logits = len(rows), 2, 0
    pair.drafter.decoder.store_context(batch)


def block_tokens(pair: Pair, sequence: int, size: int = SIZE) -> list[int]:
    return [int(pair.tokens[sequence, NUM_ROWS]), *[MASK] * (size - 1)]


def block_logits(pair: Pair, sizes: dict[int, int]) -> np.ndarray:
    """The logits of one pass over a block of each of these sequences, in their order."""
    for sequence, size in sizes.items():
        pair.drafter.tokens[sequence, NUM_ROWS : NUM_ROWS + size] = block_tokens(pair, sequence, size)
    return pair.drafter.forward([(each, NUM_ROWS + row) for each, size in sizes.items() for row in range(size)])


@pytest.mark.parametrize(
    ("config", "device_name"),
    [*product(DRAFTERS.values(), DEVICES)],
    ids=[*map(", on ".join, product(DRAFTERS, DEVICES))],
)
def test_a_block_after_its_context_matches_the_reference(config, device_name):
    pair, reference, cache = Pair(config, device_name), Reference(config), KvCache()
    for first, end in ((0, 13), (13, NUM_ROWS)):  # in two parts
        store(pair, [(0, position) for position in range(first, end)])
    reference.drafter.store_context(reference.hidden(pair.tokens[0, :NUM_ROWS]), cache)
    for size in (SIZE, 2, 1):  # the next block overwrites the last one
        wanted = reference.drafter.block(block_tokens(pair, 0, size), cache)
        assert error(block_logits(pair, {0: size}), spread(config, wanted)) < 1e-4, size
    assert not torch.allclose(wanted[:1], reference.drafter.block(block_tokens(pair, 0), cache)[:1])  # it looks ahead


@pytest.mark.parametrize("device_name", DEVICES)
def test_each_block_has_its_own_bits(device_name):
    config = DRAFTERS["windows without and with a look ahead, own tables"]
    together, apart = Pair(config, device_name, "bf16", threads=2), Pair(config, device_name, "bf16")
    store(together, [(sequence, position) for position in range(NUM_ROWS) for sequence in range(2)])
    whole = block_logits(together, {0: SIZE, 1: 4})
    parts = []
    for sequence, size in ((0, SIZE), (1, 4)):
        for first in range(0, NUM_ROWS, 7):
            store(apart, [(sequence, position) for position in range(first, min(first + 7, NUM_ROWS))])
        parts.append(block_logits(apart, {sequence: size}))
    assert same_bits(whole, np.concatenate(parts))


@pytest.mark.parametrize("device_name", DEVICES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", ["shares both tables, norms of heads", "a small head, its first row predicts"])
def test_draws_are_those_of_the_rows_one_by_one(device_name, temperature, name):
    config, order, counts = DRAFTERS[name], [1, 0], [6, 4]
    skipped = 0 if config.features.block.first_predicts else 1
    at_once, single = Pair(config, device_name, "bf16"), Pair(config, device_name, "bf16")
    batch, states = fill(at_once, order), [state(at_once, sequence, temperature) for sequence in order]
    drawn = at_once.drafter.decoder.extend(batch, at_once.sampler, states, [[], []], counts)
    assert [len(each) for each in drawn] == counts
    store(single, [(sequence, position) for sequence in range(2) for position in range(NUM_ROWS)])
    for sequence, tokens in zip(order, drawn, strict=True):
        block_logits(single, {sequence: len(tokens) + skipped})
        batch = single.drafter.batch  # only the rows that draw
        batch.num_logits = len(tokens)
        batch.logit_rows[: len(tokens)] = np.arange(skipped, skipped + len(tokens))
        results = single.drafter.decoder.forward(batch)
        found = single.sampler.sample(results.logits, [state(single, sequence, temperature)], [tokens[:-1]])
        assert found.token_ids.tolist() == tokens
    if config.features.head_size:
        assert {*chain.from_iterable(drawn)} <= {*SMALL}


def test_rows_are_read_without_a_draw():
    config = DRAFTERS["shares both tables, norms of heads"]
    pair, reference, cache = Pair(config, DEVICES[0]), Reference(config), KvCache()
    batch = fill(pair, [0, 1])
    batch.num_logits = 0
    assert pair.drafter.decoder.extend(batch, pair.sampler, [], [], []) == []
    reference.drafter.store_context(reference.hidden(pair.tokens[0, :NUM_ROWS]), cache)
    assert error(block_logits(pair, {0: SIZE}), reference.drafter.block(block_tokens(pair, 0), cache)) < 1e-4


def test_blocks_that_cannot_be_are_refused():
    pair = Pair(DRAFTERS["shares both tables, norms of heads"], DEVICES[0])
    states = [state(pair, sequence, 0.0) for sequence in (1, 0)]
    for counts, said in (([SIZE, 1], r"counts\[0\] is 7"), ([1, 0], r"counts\[1\] is 0")):
        with pytest.raises(ValueError, match=said):
            pair.drafter.decoder.extend(fill(pair, [1, 0]), pair.sampler, states, [[], []], counts)
    batch = fill(pair, [1, 0])
    batch.logit_rows[0] = 3
    with pytest.raises(ValueError, match=r"logit_rows\[0\]: must be another row, as row 3"):
        pair.drafter.decoder.extend(batch, pair.sampler, states, [[], []], [1, 1])
    for config, said in (
        (replace(DRAFTER, features=replace(DRAFTER.features, norm_carried=True)), "norm_carried must be false"),
        (replace(DRAFTER, features=replace(DRAFTER.features, block=FeatureBlock(size=1, mask_token=0))), "block.size"),
        (
            replace(DRAFTER, features=replace(DRAFTER.features, block=FeatureBlock(size=2, mask_token=150))),
            "mask_token",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            Pair(config, DEVICES[0])
    with pytest.raises(ValueError, match=r"layers\[0\].looks_ahead is true"):
        DecoderConfig(replace(PLAIN, layers=(AHEAD,)))
    with pytest.raises(ValueError, match="no drafter with a context"):
        pair.target.decoder.store_context(Batch(max_rows=1, max_sequences=1, max_blocks=1))


def with_markov(head_size: int, *, has_confidence: bool = False) -> ModelConfig:
    config = with_features(first_predicts=True, head_size=head_size)
    block = replace(config.features.block, markov_rank=8, has_confidence=has_confidence)
    return replace(config, features=replace(config.features, block=block))


class Dependent:
    """A drafter whose rows depend on the tokens before them, and the same in torch after each sequence's context."""

    def __init__(self, config: ModelConfig, device_name: str, *, is_short: bool = False) -> None:
        self.config, self.pair = config, Pair(config, device_name)
        self.tokens = SMALL if is_short or config.features.head_size == len(SMALL) else [*range(config.vocab_size)]
        if is_short:
            self.pair.drafter.decoder.shorten_head(np.array(SMALL, np.int32))
        self.columns = self.tokens if is_short else [*range(len(self.tokens))]  # of the reference's logits

    def draw(self, counts: dict[int, int], least_chances: Iterable[float] = (0.0, 0.0)) -> list[list[int]]:
        """The draws of sequences in this order."""
        batch, states = fill(self.pair, [*counts]), [state(self.pair, sequence, 0.0) for sequence in counts]
        chances = [*least_chances][: len(counts)]
        return self.pair.drafter.decoder.extend(
            batch, self.pair.sampler, states, [[] for _ in counts], [*counts.values()], [None] * len(counts), chances
        )

    def expected(self, sequence: int, count: int) -> tuple[list[int], list[int], list[float]]:
        """The tokens, those without what depends on the tokens before, and the chance of each."""
        reference, cache = Reference(self.config), KvCache()
        drafter = reference.drafter
        drafter.store_context(reference.hidden(self.pair.tokens[sequence, :NUM_ROWS]), cache)
        before = int(self.pair.tokens[sequence, NUM_ROWS])
        tokens, plain, chances = [], [], []
        for row, logits in enumerate(drafter.block(block_tokens(self.pair, sequence, count), cache)):
            plain.append(self.tokens[int(logits[self.columns].argmax())])
            chances.append(drafter.confidence(row, before) if drafter.config.features.block.has_confidence else 1.0)
            before = self.tokens[int((logits + drafter.bias(before))[self.columns].argmax())]
            tokens.append(before)
        return tokens, plain, chances


@pytest.mark.parametrize("device_name", DEVICES)
@pytest.mark.parametrize(
    ("head_size", "is_short"),
    [(len(SMALL), False), (0, False), (0, True)],
    ids=["a small head", "a whole one", "a shortlist"],
)
def test_a_draw_depends_on_the_one_before(device_name, head_size, is_short):
    drafter = Dependent(with_markov(head_size), device_name, is_short=is_short)
    for counts in ({1: 3, 0: SIZE}, {0: SIZE, 1: 1}, {1: 4}):
        wanted = [drafter.expected(*each) for each in counts.items()]
        assert drafter.draw(counts) == [tokens for tokens, _, _ in wanted]
        assert [tokens for tokens, _, _ in wanted] != [plain for _, plain, _ in wanted]


@pytest.mark.parametrize("device_name", DEVICES)
@pytest.mark.parametrize(("head_size", "is_short"), [(len(SMALL), False), (0, True)], ids=["small", "shortlist"])
def test_a_run_ends_where_its_drafter_is_not_sure(device_name, head_size, is_short):
    drafter, counts = (
        Dependent(with_markov(head_size, has_confidence=True), device_name, is_short=is_short),
        {1: 5, 0: SIZE},
    )
    wanted = [drafter.expected(*each) for each in counts.items()]
    together = [np.cumprod(chances) for _, _, chances in wanted]
    for lengths in ((2, 4), (4, 2), (1, 6)):
        least = [(each[length - 1] + each[length]) / 2 for each, length in zip(together, lengths, strict=True)]
        expected = [tokens[:length] for (tokens, _, _), length in zip(wanted, lengths, strict=True)]
        assert drafter.draw(counts, least) == expected
    assert drafter.draw(counts, (0.999, 0.0)) == [wanted[0][0][:1], wanted[1][0]], "one draw in any case"


@pytest.mark.parametrize("device_name", DEVICES)
@pytest.mark.parametrize("name", ["shares both tables, norms of heads", "a small head, its first row predicts"])
def test_sequences_that_are_only_read_change_no_draw(device_name, name):
    pair = Pair(DRAFTERS[name], device_name, "bf16")
    draw = pair.drafter.decoder.extend
    states = [state(pair, sequence, 1.0) for sequence in range(2)]
    together = draw(fill(pair, [0, 1]), pair.sampler, states, [[], []], [5, 4])
    for sequence in range(2):
        batch = fill(pair, [sequence])
        batch.num_logits = 1
        assert draw(batch, pair.sampler, [states[sequence]], [[]], [5 - sequence]) == [together[sequence]]


def test_a_mask_of_tokens_holds_for_the_only_draw():
    pair = Pair(DRAFTERS["shares both tables, norms of heads"], DEVICES[0])
    mask = np.zeros((1, -(-PLAIN.vocab_size // 32)), np.uint32)
    mask[0, 1] = 1 << 7
    drawn = pair.drafter.decoder.extend(
        fill(pair, [1, 0]), pair.sampler, [state(pair, each, 1.0) for each in (1, 0)], [[], []], [3, 1], [None, mask]
    )
    assert drawn[1] == [39]
    assert len(drawn[0]) == 3


@pytest.mark.parametrize("device_name", DEVICES)
def test_a_long_context(device_name):
    """Longer than what one block of threads attends to at a time."""
    config, length = DRAFTERS["a small head, its first row predicts"], 340
    pair, reference, cache = Pair(config, device_name, length=length), Reference(config), KvCache()
    num_rows = length - SIZE
    store(pair, [(0, position) for position in range(num_rows)])
    reference.drafter.store_context(reference.hidden(pair.tokens[0, :num_rows]), cache)
    token_ids = [int(pair.tokens[0, num_rows]), *[MASK] * (SIZE - 1)]
    pair.drafter.tokens[0, num_rows:] = token_ids
    found = pair.drafter.forward([(0, num_rows + row) for row in range(SIZE)])
    assert error(found, spread(config, reference.drafter.block(token_ids, cache))) < 1e-4
