"""An attached drafter reads what its target's pass has kept, which changes no logit of the target."""

from dataclasses import replace
from itertools import chain, product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from services.engine.checkpoint.model_config import Attention, Experts, FeatureNorm, Features, ModelConfig, QkNorm
from services.engine.decoder.native import Batch, Pass, Sampler, SamplingState
from tests.native.harness.devices import DEVICES, make_device
from tests.native.harness.parity import relative_error
from tests.native.harness.random_models import EXPERT_MODELS, MODELS, PLAIN, PagedDecoder, random_tokens, random_weights
from tests.native.harness.reference_decoder import KvCache, ReferenceDecoder
from tests.native.harness.reference_drafter import ReferenceDrafter
from tests.native.harness.row_invariance import same_bits
from tests.native.harness.sampling_reference import Settings

BOUNDARIES = (2, 0, 1)
LENGTH = 40
NUM_ROWS = 30  # of the target that are read; the others are generated
KINDS = {**MODELS, **EXPERT_MODELS}
SMALL = [*range(5, 150, 3)]  # the tokens of a small output matrix
DRAFTER = replace(PLAIN, layers=(Attention(),), features=Features(count=3, width=PLAIN.hidden_size))


def with_features(drafter: ModelConfig = DRAFTER, **changes: object) -> ModelConfig:
    assert drafter.features is not None
    return replace(drafter, features=replace(drafter.features, **changes))


JOINED = {"count": 1, "norm": FeatureNorm.ALL, "fc_reads_both": True, "norm_carried": True}
DRAFTERS = {
    "shares both tables": DRAFTER,
    "one norm of all features, a small head": with_features(norm=FeatureNorm.ALL, head_size=len(SMALL)),
    "normed residual, norms of heads, own tables": with_features(
        replace(DRAFTER, qk_norm=QkNorm.HEAD), norm_residual=True, own_embedding=True, head_size=PLAIN.vocab_size
    ),
    "a norm for each feature, a normed hidden vector, two layers": with_features(
        replace(DRAFTER, layers=(Attention(), Attention())), norm=FeatureNorm.EACH, norm_carried=True
    ),
    "of another width, with a window": with_features(
        replace(DRAFTER, hidden_size=36, layers=(Attention(window=9),)), own_embedding=True, head_size=len(SMALL)
    ),
    "joined, gated attention, a window": with_features(
        replace(DRAFTER, attention_gate=True, qk_norm=QkNorm.HEAD, layers=(Attention(window=9),)), **JOINED
    ),
}
WITH_EXPERTS = with_features(
    replace(DRAFTER, experts=Experts(count=5, per_token=2, size=24, are_normalised=True)), **JOINED
)


def boundaries(config: ModelConfig) -> tuple[int, ...]:
    assert config.features is not None
    return BOUNDARIES[: config.features.count]


class Pair:
    """A random target and a random drafter, with two sequences of tokens."""

    def __init__(
        self,
        config: ModelConfig,
        device_name: str,
        weights: str = "f32",
        threads: int = 1,
        target: ModelConfig = PLAIN,
        length: int = LENGTH,
    ) -> None:
        device = make_device(device_name, threads)
        self.config = config
        self.tokens = random_tokens(target, 2, length)
        self.target = PagedDecoder(target, device, weights, tokens=self.tokens)
        self.target.decoder.keep_features(boundaries(config))
        following = np.roll(self.tokens, -1, axis=1)  # a row of the drafter has the next token
        self.drafter = PagedDecoder(config, device, weights, tokens=following, seed=1, target=self.target.decoder)
        if config.features.head_size == len(SMALL):
            self.drafter.decoder.set_head_tokens(SMALL)
        self.sampler = Sampler(device)

    def read(self, rows: list[tuple[int, int]]) -> Pass:
        """Both passes over these rows."""
        self.drafter.decoder.read_features(self.target.run(rows), range(len(rows)))
        return self.drafter.run(rows)


class Reference:
    """The same in torch."""

    def __init__(self, config: ModelConfig, of_target: ModelConfig = PLAIN) -> None:
        target = random_weights(of_target)
        self.target = ReferenceDecoder(of_target, target.items())
        shared = {name: target[name] for name in ("embedding", "lm_head") if name in target}
        self.drafter = ReferenceDrafter(config, (shared | random_weights(config)).items())

    def hidden(self, tokens: NDArray[np.int32]) -> torch.Tensor:
        self.target.logits(tokens.tolist())
        streams = [self.target.streams[boundary] for boundary in boundaries(self.drafter.config)]
        return self.drafter.hidden(torch.cat(streams, dim=-1))


def spread(config: ModelConfig, logits: torch.Tensor) -> torch.Tensor:
    """Logits of the whole vocabulary."""
    if config.features.head_size != len(SMALL):
        return logits
    whole = torch.full((len(logits), config.vocab_size), -torch.inf)
    whole[:, SMALL] = logits
    return whole


def error(found: NDArray[np.float32], wanted: torch.Tensor) -> float:
    known = torch.isfinite(wanted)
    assert np.array_equal(np.isfinite(found), known.numpy())
    return relative_error(torch.from_numpy(found)[known], wanted[known])


@pytest.mark.parametrize(
    ("config", "device_name"),
    [*product(DRAFTERS.values(), DEVICES), (WITH_EXPERTS, DEVICES[0])],
    ids=[*map(", on ".join, product(DRAFTERS, DEVICES)), "joined, experts"],
)
def test_rows_and_the_chain_after_them_match_the_reference(config, device_name):
    pair, reference, cache = Pair(config, device_name), Reference(config), KvCache()
    following = np.roll(pair.tokens, -1, axis=1)[0].tolist()
    hidden = reference.hidden(pair.tokens[0, :NUM_ROWS])
    wanted, carried = reference.drafter.read(hidden, following[:NUM_ROWS], cache)
    found = pair.read([(0, position) for position in range(NUM_ROWS)])
    assert error(found.logits.numpy(), spread(config, wanted)) < 1e-4
    pair.drafter.batch.num_logits = 1  # of the last row, from which the chain goes on
    pair.drafter.batch.logit_rows[0] = NUM_ROWS - 1
    pair.drafter.decoder.read_features(pair.target.run([(0, each) for each in range(NUM_ROWS)]), range(NUM_ROWS))
    pair.drafter.decoder.forward(pair.drafter.batch)
    for position in range(NUM_ROWS, LENGTH):
        wanted, carried = reference.drafter.read(carried[-1:], following[position : position + 1], cache)
        found = pair.drafter.run([(0, position)])
        assert error(found.logits.numpy(), spread(config, wanted)) < 1e-4, position


@pytest.mark.parametrize("model", KINDS.values(), ids=KINDS)
def test_targets_of_every_kind_hand_over_their_residual_stream(model):
    config = with_features(width=model.hidden_size, own_embedding=True, head_size=model.vocab_size)
    config = replace(config, vocab_size=model.vocab_size)
    pair, reference = Pair(config, DEVICES[0], target=model), Reference(config, model)
    following = np.roll(pair.tokens, -1, axis=1)[0].tolist()
    hidden = reference.hidden(pair.tokens[0, :NUM_ROWS])
    wanted, _ = reference.drafter.read(hidden, following[:NUM_ROWS], KvCache())
    found = pair.read([(0, position) for position in range(NUM_ROWS)])
    assert error(found.logits.numpy(), wanted) < 1e-4


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("device_name", DEVICES)
def test_kept_features_change_no_bit_of_the_target(model, device_name):
    rows = [(sequence, position) for sequence in range(2) for position in range(20)]
    tokens = random_tokens(model, 2, 20)
    plain = PagedDecoder(model, make_device(device_name, threads=1), "bf16", tokens=tokens)
    keeping = PagedDecoder(model, make_device(device_name, threads=1), "bf16", tokens=tokens)
    keeping.decoder.keep_features(range(model.num_layers + 1))
    assert same_bits(plain.forward(rows), keeping.forward(rows))


@pytest.mark.parametrize("device_name", DEVICES)
def test_each_row_has_its_own_bits(device_name):
    config = DRAFTERS["one norm of all features, a small head"]
    rows = [(sequence, position) for position in range(NUM_ROWS) for sequence in range(2)]
    whole = Pair(config, device_name, "bf16", threads=2).read(rows).logits.numpy()
    pair = Pair(config, device_name, "bf16")
    parts = [pair.read(rows[first : first + 7]).logits.numpy() for first in range(0, len(rows), 7)]
    assert same_bits(whole, np.concatenate(parts))


@pytest.mark.parametrize("device_name", DEVICES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_chain_in_one_call_draws_what_single_passes_draw(device_name, temperature):
    config, order, counts = DRAFTERS["one norm of all features, a small head"], [1, 0], [6, 4]
    at_once, single = Pair(config, device_name, "bf16"), Pair(config, device_name, "bf16")
    batch, states = fill(at_once, order), [state(at_once, sequence, temperature) for sequence in order]
    chains = at_once.drafter.decoder.extend(batch, at_once.sampler, states, [[], []], counts)
    assert [len(each) for each in chains] == counts
    results = single.drafter.decoder.forward(fill(single, order))
    states = [state(single, sequence, temperature) for sequence in order]
    for step in range(max(counts)):
        going = [index for index, count in enumerate(counts) if count > step]
        tokens = single.sampler.sample(results.logits, [states[index] for index in going], [[] for _ in going])
        assert tokens.token_ids.tolist() == [chains[index][step] for index in going]
        going = [index for index in going if counts[index] > step + 1]
        for index in going:
            states[index].commit([chains[index][step]])
            single.drafter.tokens[order[index], NUM_ROWS + step] = chains[index][step]
        if going:
            results = single.drafter.run([(order[index], NUM_ROWS + step) for index in going])
    assert {*chain.from_iterable(chains)} <= {*SMALL}


def fill(pair: Pair, order: list[int]) -> Batch:
    """The drafter's batch after both passes' features, with the last row of each sequence asked."""
    rows = [(sequence, position) for sequence in range(2) for position in range(NUM_ROWS)]
    pair.drafter.decoder.read_features(pair.target.run(rows), range(len(rows)))
    batch = pair.drafter.batch
    batch.sequences[: len(rows)] = [sequence for sequence, _ in rows]
    batch.positions[: len(rows)] = [position for _, position in rows]
    batch.token_ids[: len(rows)] = [pair.drafter.tokens[row] for row in rows]
    batch.num_rows, batch.num_sequences, batch.num_logits = len(rows), 2, len(order)
    batch.logit_rows[: len(order)] = [(sequence + 1) * NUM_ROWS - 1 for sequence in order]
    return batch


def state(pair: Pair, sequence: int, temperature: float) -> SamplingState:
    known = pair.tokens[sequence, : NUM_ROWS + 1].tolist()
    return Settings(seed=3 + sequence, temperature=temperature).state(known)


def test_what_does_not_fit_the_target_is_refused():
    device = make_device(DEVICES[0], threads=1)
    tokens = random_tokens(PLAIN, 1, 4)
    target = PagedDecoder(PLAIN, device, "bf16", tokens=tokens)
    for change, said in (
        ({"count": 9}, "features.count is 9"),
        ({"width": 71}, "features.width is 71"),
        ({"head_size": PLAIN.vocab_size + 1}, "features.head_size is 151"),
        ({"fc_reads_both": True}, "features.count is 3"),
    ):
        with pytest.raises(ValueError, match=said):
            PagedDecoder(with_features(**change), device, "bf16", tokens=tokens, target=target.decoder)
    with pytest.raises(ValueError, match="hidden_size is 36"):
        PagedDecoder(replace(DRAFTER, hidden_size=36), device, "bf16", tokens=tokens, target=target.decoder)
    with pytest.raises(ValueError, match="target: must be given"):
        PagedDecoder(DRAFTER, device, "bf16", tokens=tokens)
    with pytest.raises(ValueError, match="target: must be given"):
        PagedDecoder(PLAIN, device, "bf16", tokens=tokens, target=target.decoder)


@pytest.mark.parametrize("device_name", DEVICES)
def test_a_shortlist_leaves_the_logits_of_its_tokens(device_name):
    rows = [(0, position) for position in range(NUM_ROWS)]
    for name in ("joined, gated attention, a window", "normed residual, norms of heads, own tables"):
        pair = Pair(DRAFTERS[name], device_name, "bf16")
        whole = pair.read(rows).logits.numpy()
        pair.drafter.decoder.shorten_head(np.array(SMALL, np.int32))
        short = pair.read(rows).logits.numpy()
        assert same_bits(short[:, SMALL], whole[:, SMALL])
        assert np.isneginf(np.delete(short, SMALL, axis=1)).all()
    pair = Pair(DRAFTERS["one norm of all features, a small head"], device_name)
    with pytest.raises(ValueError, match="token_ids: the lm_head has rows for some tokens only"):
        pair.drafter.decoder.shorten_head(np.array(SMALL, np.int32))


def test_rows_without_features_are_refused():
    pair = Pair(DRAFTERS["one norm of all features, a small head"], DEVICES[0])
    rows = [(0, position) for position in range(4)]
    with pytest.raises(ValueError, match="num_rows is 4"):
        pair.drafter.run(rows)
    results = pair.target.run(rows)
    with pytest.raises(ValueError, match="rows is 4"):
        pair.drafter.decoder.read_features(results, [0, 4])
    with pytest.raises(ValueError, match="no attached drafter"):
        pair.target.decoder.read_features(results, [0])
    stale = pair.target.run(rows)
    pair.target.run(rows)
    with pytest.raises(RuntimeError, match="results are gone"):
        pair.drafter.decoder.read_features(stale, [0])
    with pytest.raises(ValueError, match="token_ids"):
        pair.drafter.decoder.set_head_tokens(SMALL[1:])
    with pytest.raises(ValueError, match="boundaries is 3"):
        pair.target.decoder.keep_features([3])
