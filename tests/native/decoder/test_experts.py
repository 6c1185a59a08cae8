"""Mixtures of experts: which experts a router chooses, and models whose rows have the same bits in any company."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Activation, Attention, Experts, ExpertScores
from services.engine.config import CPU_WEIGHT_FORMATS
from services.engine.decoder.model_loader import find_blocks
from services.engine.decoder.native import Decoder, DecoderConfig, Device, isas
from services.engine.decoder.native.testing import Operations, PackedWeight, poison
from services.engine.decoder.weight_choice import STORED
from tests.harness.models.checkpoints import copy_of, edit_weights
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.quantised_folders import WAYS, quantise
from tests.native.harness.devices import DEVICES, in_every_cpu_format, in_every_weight_format, is_cuda, make_device
from tests.native.harness.parity import PROMPT, native_model, relative_error
from tests.native.harness.random_models import EXPERT_MODELS, PLAIN, PagedDecoder, random_tokens, random_weights
from tests.native.harness.reference_decoder import ReferenceDecoder, choose_experts
from tests.native.harness.row_invariance import (
    THREADS,
    assert_any_chunks_are_alike,
    assert_any_mixture_is_alike,
    assert_row_invariant,
    normal,
    prefill,
    same_bits,
)

FEW, MANY, BIASED, SCORED, NORMED = EXPERT_MODELS.values()
in_formats_on_threads = pytest.mark.parametrize(
    ("device_name", "weight_format", "threads"),
    [
        *itertools.product(isas(), CPU_WEIGHT_FORMATS, THREADS),
        *itertools.product([name for name in DEVICES if is_cuda(name)], ["bf16", "int4"], [2]),
    ],
)
on_every_device = pytest.mark.parametrize("device_name", DEVICES)
in_all_models = pytest.mark.parametrize(
    "model", [FEW, MANY, BIASED, SCORED, NORMED], ids=["few", "many", "biased", "scored", "normed"]
)


def _true_route(logits: np.ndarray, per_token: int, *, are_normalised: bool) -> tuple[np.ndarray, np.ndarray]:
    """By the definition, in float64: softmax, the greatest, and the lowest ids among equals."""
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    chosen = np.sort(np.argsort(-logits, axis=1, kind="stable")[:, :per_token])
    weights = np.take_along_axis(powers, chosen, axis=1)
    return chosen, weights / (weights if are_normalised else powers).sum(axis=1, keepdims=True)


@on_every_device
@pytest.mark.parametrize("are_normalised", [False, True])
@pytest.mark.parametrize(("count", "per_token"), [(1, 1), (5, 5), (8, 2), (60, 4), (130, 9)])
def test_the_greatest_are_chosen_and_among_equals_the_lowest_ids(device_name, count, per_token, are_normalised):
    device, logits = make_device(device_name, threads=2), normal(64, count)
    for values in (4 * logits, np.round(logits), np.zeros_like(logits)):
        experts, weights = Operations.route(device, values, per_token, are_normalised=are_normalised)
        chosen, expected = _true_route(values, per_token, are_normalised=are_normalised)
        assert np.array_equal(experts, chosen)
        assert np.allclose(weights, expected, rtol=2e-6, atol=1e-12)


def _route(device: Device, logits: np.ndarray, bias: np.ndarray | None, experts: Experts) -> tuple[np.ndarray, ...]:
    """By the native operation."""
    fields = ("are_normalised", "scores", "sum_offset", "weight_scale", "groups", "groups_per_token")
    rule = {name: getattr(experts, name) for name in fields}
    return Operations.route(device, logits, experts.per_token, choice_bias=bias, **rule)


SIGMOIDS = {
    "normalised": {"count": 60, "per_token": 4, "are_normalised": True, "sum_offset": 1e-20},
    "as they are": {"count": 33, "per_token": 5, "are_normalised": False, "weight_scale": 1.5},
    "an offset": {"count": 8, "per_token": 2, "are_normalised": True, "sum_offset": 0.25},
    "groups": {"count": 64, "per_token": 6, "are_normalised": True, "groups": 8, "groups_per_token": 3},
    "pairs": {"count": 10, "per_token": 2, "are_normalised": True, "groups": 5, "groups_per_token": 1},
}


@on_every_device
@pytest.mark.parametrize("fields", SIGMOIDS.values(), ids=[*SIGMOIDS])
@pytest.mark.parametrize("has_bias", [False, True])
def test_sigmoids_with_their_bias_choose_and_without_it_weigh(device_name, fields, has_bias):
    experts = Experts(size=1, scores=ExpertScores.SIGMOID, **fields)
    bias = 0.3 * normal(experts.count, seed=1) if has_bias else None
    for logits in (normal(64, experts.count), np.round(normal(64, experts.count)), np.zeros((3, experts.count))):
        values = logits.astype(np.float32)
        found, weights = _route(make_device(device_name, threads=2), values, bias, experts)
        wide = torch.from_numpy(values).double()
        chosen, expected = choose_experts(experts, wide, None if bias is None else torch.from_numpy(bias).double())
        chosen, order = chosen.sort(dim=-1)
        assert np.array_equal(found, chosen.numpy())
        assert np.allclose(weights, expected.gather(1, order).numpy(), rtol=2e-6, atol=1e-12)


@on_every_device
@pytest.mark.parametrize("are_normalised", [False, True])
def test_groups_of_a_softmax_are_chosen_by_their_best(device_name, are_normalised):
    rule = {"count": 24, "per_token": 4, "groups": 6, "groups_per_token": 2, "weight_scale": 16.0}
    experts = Experts(size=1, are_normalised=are_normalised, **rule)
    values = normal(64, experts.count).astype(np.float32)
    found, weights = _route(make_device(device_name, threads=2), values, None, experts)
    chosen, expected = choose_experts(experts, torch.from_numpy(values).double())
    chosen, order = chosen.sort(dim=-1)
    assert np.array_equal(found, chosen.numpy())
    assert np.allclose(weights, expected.gather(1, order).numpy(), rtol=2e-6, atol=1e-12)
    by_two = replace(experts, scores=ExpertScores.SIGMOID)
    assert not np.array_equal(_route(make_device(device_name, threads=2), values, None, by_two)[0], found)


@on_every_device
def test_equal_groups_are_chosen_by_their_numbers(device_name):
    experts = Experts(count=6, per_token=2, size=1, scores=ExpertScores.SIGMOID, are_normalised=True, groups=3)
    device, logits = make_device(device_name, threads=1), np.array([[0, 1, 2, 1, 2, 1]], np.float32)
    assert _route(device, logits, None, experts)[0].tolist() == [[2, 3]]
    assert _route(device, logits, np.array([3, 3, 0, 0, 0, 0], np.float32), experts)[0].tolist() == [[0, 1]]


@on_every_device
@pytest.mark.parametrize("groups", [1, 3])
def test_a_nan_row_is_scored_into_distinct_experts(device_name, groups):
    rule = {"scores": "sigmoid", "groups": groups, "groups_per_token": 1, "are_normalised": True}
    logits = np.array([[1, 2, 3, 4, 5, 6], [np.nan, 2, np.nan, 4, 5, -np.nan], [np.nan] * 6], np.float32)
    experts, weights = Operations.route(make_device(device_name, threads=1), logits, 2, **rule)
    assert all(len({*row}) == 2 and {*row} <= {*range(6)} for row in experts.tolist())
    assert np.isfinite(weights[0]).all()
    assert np.isnan(weights[2]).all()


@on_every_device
def test_zeros_of_both_signs_are_equal(device_name):
    logits = np.array([[-0.0, 0.0, -0.0], [-1.0, -0.0, 0.0]], np.float32)
    experts, _ = Operations.route(make_device(device_name, threads=1), logits, 1, are_normalised=True)
    assert experts.tolist() == [[0], [1]]


@on_every_device
@pytest.mark.parametrize("nan", [np.float32("nan"), -np.float32("nan")])
def test_a_nan_row_is_routed_to_distinct_experts(device_name, nan):
    logits = np.array([[1, 2, 3, 4], [nan, 2, nan, 4], [nan] * 4], np.float32)
    experts, weights = Operations.route(make_device(device_name, threads=1), logits, 3, are_normalised=False)
    assert all(len({*row}) == 3 and {*row} <= {0, 1, 2, 3} for row in experts.tolist())
    assert np.isnan(weights).all(axis=1).tolist() == [False, True, True]


@on_every_device
@pytest.mark.parametrize(
    "rule",
    [
        {"are_normalised": False},
        {"are_normalised": True},
        {"are_normalised": True, "scores": "sigmoid", "groups": 3, "groups_per_token": 2},
    ],
    ids=["softmax", "normalised", "groups"],
)
def test_a_row_is_routed_alike_in_any_company(device_name, rule):
    logits = np.round(4 * normal(257, 21)) / 4

    def route(device: Device, chosen: np.ndarray) -> np.ndarray:
        experts, weights = Operations.route(device, logits[chosen], 5, **rule)
        return np.concatenate([experts.astype(np.float32), weights], axis=1)

    assert_row_invariant(device_name, route)


@in_every_weight_format
@pytest.mark.parametrize("rows", [0, 9, 150, 700])
def test_each_expert_multiplies_its_rows_as_if_they_were_alone(device_name, weight_format, rows):
    """Some have no rows; on a GPU they are more than one launch takes, and few or many rows are cut differently."""
    count, outputs, inputs = 130, 72, 70
    device, rng = make_device(device_name, threads=2), np.random.default_rng(rows)
    weights = [PackedWeight(device, weight_format, outputs, inputs) for _ in range(count)]
    for seed, weight in enumerate(weights):
        weight.store(0, normal(outputs, inputs, seed=seed))
    first_rows = np.searchsorted(np.sort(rng.choice([*range(0, count, 7), 1, 129], rows)), np.arange(count + 1))
    input, biases = normal(rows, inputs), normal(count, outputs)
    found = PackedWeight.multiply_experts(weights, input, first_rows.astype(np.int32), biases)
    for weight, bias, first, end in zip(weights, biases, first_rows, first_rows[1:], strict=False):
        assert same_bits(found[first:end], weight.multiply(input[first:end], bias))


@in_all_models
@on_every_device
def test_logits_are_those_of_the_reference(device_name, model):
    tokens = random_tokens(model, 1, 100)
    expected = ReferenceDecoder(model, random_weights(model).items()).logits(tokens[0].tolist())
    decoder = PagedDecoder(model, make_device(device_name, threads=2), "f32", tokens=tokens)
    found = decoder.forward([(0, position) for position in range(100)])
    assert relative_error(torch.from_numpy(found), expected) < 1e-5


@in_all_models
@in_formats_on_threads
def test_any_chunks_give_the_same_logits(device_name, weight_format, model, threads):
    assert_any_chunks_are_alike(model, device_name, weight_format, threads)


@in_all_models
@in_formats_on_threads
def test_mixed_sequences_give_the_logits_of_each_alone(device_name, weight_format, model, threads):
    assert_any_mixture_is_alike(model, device_name, weight_format, threads)


@in_all_models
def test_every_expert_has_rows(model):
    """Else the tests above would not cover some of them."""
    device, tokens = make_device(isas()[0], threads=1), random_tokens(model, 1, 110)
    decoder = PagedDecoder(model, device, "f32", tokens=tokens)
    expected = prefill(decoder, chunk=110)
    weights = random_weights(model)
    for name in [name for name in weights if name.endswith((".gate", ".up", ".down"))]:
        decoder.decoder.load(name, np.zeros_like(weights[name]))
        assert not same_bits(prefill(decoder, chunk=110), expected), name
        decoder.decoder.load(name, weights[name])
    assert same_bits(prefill(decoder, chunk=110), expected)


@in_all_models
@on_every_device
def test_a_nan_sequence_harms_no_other_sequence(device_name, model):
    device, tokens = make_device(device_name, threads=2), random_tokens(model, 2, 40)
    decoder = PagedDecoder(model, device, "bf16", tokens=tokens)
    rows = [(sequence, position) for position in range(20, 40) for sequence in range(2)]
    for sequence in range(2):
        decoder.forward([(sequence, position) for position in range(20)])
    expected = decoder.forward(rows)
    poison(decoder.decoder, [int(decoder.batch.block_tables[0, 0])])
    found = decoder.forward(rows)
    assert np.isnan(found[::2]).all()
    assert same_bits(found[1::2], expected[1::2])


@in_all_models
@in_every_cpu_format
def test_packed_experts_are_kept_and_filled_in_again(device_name, weight_format, model):
    device, tokens = make_device(device_name, threads=1), random_tokens(model, 1, 9)
    first = PagedDecoder(model, device, weight_format, tokens=tokens)
    second = PagedDecoder(model, device, weight_format, tokens=tokens)
    kept = {name: values.copy() for name, values in first.decoder.packed_weights().items()}
    expected = prefill(first, chunk=9)
    for values in second.decoder.packed_weights().values():
        values.fill(0)
    assert not same_bits(prefill(second, chunk=9), expected)
    for name, values in second.decoder.packed_weights().items():
        values[:] = kept[name]
    assert same_bits(prefill(second, chunk=9), expected)


def test_a_row_reads_the_weights_of_its_own_experts_only():
    device = Device.cpu(isas()[0], threads=1)

    def weight_bytes(experts: Experts) -> int:
        config = DecoderConfig(replace(FEW, experts=experts))
        return Decoder(device, config, weights="bf16", kv="bf16").weight_bytes

    assert FEW.experts is not None
    least = weight_bytes(replace(FEW.experts, per_token=1))
    one_more = weight_bytes(replace(FEW.experts, per_token=2)) - least
    assert one_more == FEW.num_layers * 3 * FEW.experts.size * FEW.hidden_size * 2
    of_router = FEW.num_layers * FEW.hidden_size * 2
    assert weight_bytes(replace(FEW.experts, count=9, per_token=1)) == least + 2 * of_router


@pytest.mark.parametrize(
    ("kind", "way", "block", "most"),
    [
        (Further.QWEN3_MOE, "gptq", "Q4_0", 0.2),
        (Further.GLM4_MOE, "awq of 64", "Q8_0", 0.2),
        (Further.LFM2_MOE, "gptq", "Q4_0", 0.25),
        (Further.GLM4_MOE, "int4 packed", "Q4_0", 0.2),
    ],
)
def test_experts_that_others_have_quantised_are_held_as_they_are(tmp_path, kind, way, block, most):
    plain = copy_of(further_checkpoint(kind), tmp_path, "plain")
    packed = copy_of(plain, tmp_path, "packed")
    values = quantise(packed, WAYS[way])
    edit_weights(plain, lambda tensors: tensors.update(values))
    blocks = find_blocks(load_checkpoint(packed))
    assert blocks["layers.3.experts.7.gate"] == block
    assert "layers.3.router" not in blocks
    expected = native_model(load_checkpoint(plain), isas()[0], "f32")(PROMPT)
    by_values = native_model(load_checkpoint(packed), isas()[0], "f32")(PROMPT)
    assert torch.equal(by_values, expected)
    held = native_model(load_checkpoint(packed), isas()[0], STORED, kv="f32")(PROMPT)
    assert 0 < relative_error(held, expected) < most  # rows are rounded to int8, by which few go to another expert


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 0}, r"experts\.count is 0; it must be in 1 \.\.\. 1024"),
        ({"count": 2}, r"experts\.per_token is 3; it must be in 1 \.\.\. 2"),
        ({"per_token": 0}, r"experts\.per_token is 0; it must be in 1 \.\.\. 7"),
        ({"size": 0}, r"experts\.size is 0; it must be in 1 \.\.\. 8388608"),
        ({"groups": 4}, r"experts\.groups is 4; it must be in 1 \.\.\. 3"),
        ({"groups": 2}, r"experts\.count is 7; it must be a multiple of experts\.groups = 2"),
        ({"groups_per_token": 2}, r"experts\.groups_per_token is 2; it must be in 1 \.\.\. 1"),
        ({"count": 6, "groups": 3}, r"experts\.per_token is 3; it must be in 1 \.\.\. 2"),
        ({"sum_offset": -1.0}, r"experts\.sum_offset is -1\.0+; it must be finite and not negative"),
        ({"weight_scale": np.nan}, r"experts\.weight_scale is nan; it must be finite and not negative"),
        ({"scores": "softmax", "has_choice_bias": True}, r"experts\.has_choice_bias is true; it must be false where"),
        ({"scores": "softmax", "sum_offset": 1.0}, r"experts\.sum_offset is not 0, which it must be where scores"),
        ({"scores": "tanh"}, r"experts\.scores is \"tanh\"; it must be one of"),
    ],
)
def test_impossible_experts_are_refused(changes, message):
    assert FEW.experts is not None
    experts = replace(FEW.experts, scores=ExpertScores.SIGMOID)
    DecoderConfig(replace(FEW, experts=experts))
    with pytest.raises(ValueError, match=message):
        DecoderConfig(replace(FEW, experts=replace(experts, **changes)))


@pytest.mark.parametrize(("field", "value"), [("gated_mlp", False), ("parallel_mlp", True)])
def test_experts_need_gates_and_a_sequential_mlp(field, value):
    with pytest.raises(ValueError, match=rf"{field} is \w+; it must be \w+ where there are experts"):
        DecoderConfig(replace(FEW, **{field: value}))


def test_clamped_swiglu_needs_a_gated_mlp():
    with pytest.raises(ValueError, match=r'gated_mlp is false; it must be true where activation is "clamped_swiglu"'):
        DecoderConfig(replace(PLAIN, activation=Activation.CLAMPED_SWIGLU, gated_mlp=False))


@pytest.mark.parametrize(
    ("model", "layer", "message"),
    [
        (FEW, Attention(has_experts=False), r"intermediate_size is 0; it must be in 1 \.\.\. 8388608"),
        (FEW, Attention(mlp_size=0, has_experts=False), r"layers\[1\]\.mlp_size is 0; it must be in 1"),
        (PLAIN, Attention(mlp_size=0), r"layers\[1\]\.mlp_size is 0; it must be in 1 \.\.\. 8388608"),
        (FEW, Attention(mlp_size=-1), r"layers\[1\]\.mlp_size is -1; it must be in 0 \.\.\. 8388608"),
    ],
)
def test_a_layer_has_an_mlp_or_experts(model, layer, message):
    with pytest.raises(ValueError, match=message):
        DecoderConfig(replace(model, layers=(Attention(mlp_size=8), layer)))


def test_without_experts_there_is_an_mlp():
    with pytest.raises(ValueError, match=r"intermediate_size is 0; it must be in 1 \.\.\. 8388608"):
        DecoderConfig(replace(PLAIN, intermediate_size=0))
