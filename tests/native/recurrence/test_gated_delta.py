"""The gated delta rule: what it computes, and that its bits depend on nothing but the tokens so far."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from services.engine.checkpoint.model_config import Attention, GatedDelta, ModelConfig, QkNorm
from services.engine.decoder.native import Batch, Decoder, DecoderConfig, Device, isas
from services.engine.decoder.native.testing import poison_states
from tests.native.harness.devices import DEVICES, EMULATION, make_device
from tests.native.harness.random_models import PLAIN, random_tokens, random_weights, rope
from tests.native.harness.reference_decoder import ReferenceDecoder
from tests.native.harness.row_invariance import same_bits
from tests.native.harness.stateful_decoder import StatefulDecoder


def model_of(key_heads: int, value_heads: int, *, taps: int = 4, key_dim: int = 32, value_dim: int = 32) -> ModelConfig:
    """Three layers; the second one attends, with gates and a quarter of each head rotated."""
    delta = GatedDelta(key_heads=key_heads, value_heads=value_heads, key_dim=key_dim, value_dim=value_dim, taps=taps)
    return replace(
        PLAIN,
        layers=(delta, Attention(), delta),
        head_dim=32,
        ropes=(rope(8),),
        qk_norm=QkNorm.HEAD,
        attention_gate=True,
    )


MODEL = model_of(2, 4)
LENGTH = 100
ON_EVERY_DEVICE = pytest.mark.parametrize("device_name", DEVICES)


def tokens_of(length: int = LENGTH, seed: int = 0) -> list[int]:
    return random_tokens(MODEL, 1, length, seed)[0].tolist()


def length_on(device_name: str) -> int:
    """The emulation is slow."""
    return 50 if device_name == EMULATION else LENGTH


def prefill(decoder: StatefulDecoder, tokens: list[int], chunk: int, index: int = 0) -> np.ndarray:
    """All logits of a sequence, computed in chunks.  # [positions, vocab]"""
    runs = [tokens[first : first + chunk] for first in range(0, len(tokens), chunk)]
    return np.concatenate([decoder.forward({index: (run, len(run))})[index] for run in runs])


@ON_EVERY_DEVICE
@pytest.mark.parametrize(
    "config",
    [
        *(model_of(2, 2), MODEL, model_of(1, 4, taps=2), model_of(2, 2, taps=7, value_dim=96)),
        *(model_of(1, 2, key_dim=128, value_dim=128), model_of(1, 1, key_dim=256, value_dim=32)),
    ],
    ids=["a key each", "two values of a key", "four, two taps", "seven taps, wide values", "as published", "largest"],
)
def test_layers_compute_what_the_reference_does(device_name, config):
    tokens = tokens_of()
    truth = ReferenceDecoder(config, random_weights(config).items()).logits(tokens)
    ours = torch.from_numpy(prefill(StatefulDecoder(config, make_device(device_name, 1)), tokens, chunk=9))
    assert float((ours - truth).norm() / truth.norm()) < 2e-5


@ON_EVERY_DEVICE
@pytest.mark.parametrize("weight_format", ["f32", "bf16", "int8"])
def test_chunks_and_threads_do_not_change_a_bit(device_name, weight_format):
    tokens = tokens_of(length_on(device_name))
    alone = StatefulDecoder(MODEL, make_device(device_name, 1), weight_format)
    expected = prefill(alone, tokens, chunk=1)
    assert np.isfinite(expected).all()
    for chunk, threads in [(7, 2), (32, 1), (33, 3), (len(tokens), 2)]:
        decoder = StatefulDecoder(MODEL, make_device(device_name, threads), weight_format, seed=chunk)
        assert same_bits(prefill(decoder, tokens, chunk), expected)
        assert all(same_bits(*pair) for pair in zip(decoder.states(), alone.states(), strict=True))


@pytest.mark.skipif("avx2" not in isas(), reason="this machine has no AVX2")
def test_vectors_of_any_width_give_the_same_states():
    """Of equal inputs: norms add up a row in another order, and so this model has none."""
    config = replace(MODEL, layers=MODEL.layers[:1], pre_norm=False)
    narrow, wide = (StatefulDecoder(config, Device.cpu(isa, 1)) for isa in ("avx2", "emulated_avx512"))
    for decoder in (narrow, wide):
        prefill(decoder, tokens_of(), chunk=9)
    assert all(same_bits(*pair) for pair in zip(narrow.states(), wide.states(), strict=True))


@ON_EVERY_DEVICE
def test_other_sequences_do_not_change_a_bit(device_name):
    texts = [tokens_of(40, seed) for seed in range(5)]
    expected = [prefill(StatefulDecoder(MODEL, make_device(device_name, 1)), text, chunk=40) for text in texts]
    decoder = StatefulDecoder(MODEL, make_device(device_name, 2), num_sequences=5)
    decoder.decoder.record_passes(max_rows=64, max_blocks=8, seconds=60)  # where the device does, with no sequence
    got: list[list[np.ndarray]] = [[] for _ in texts]
    rng = np.random.default_rng(1)
    at = [0] * 5
    while any(place < 40 for place in at):
        sizes = [min(int(rng.integers(0, 9)), 40 - place) for place in at]
        runs = {index: (texts[index][at[index] :][:size], size) for index, size in enumerate(sizes) if size}
        if runs:
            for index, logits in decoder.forward(runs).items():
                got[index].append(logits)
                at[index] += sizes[index]
    assert all(same_bits(np.concatenate(mine), alone) for mine, alone in zip(got, expected, strict=True))


@ON_EVERY_DEVICE
@pytest.mark.parametrize("num_predictions", [1, 5, 12])
def test_rejected_rows_leave_no_trace(device_name, num_predictions):
    """At every offset to a turn of the ring, whatever number of predictions is accepted."""
    tokens = tokens_of()
    wrong = [(token + 1) % MODEL.vocab_size for token in tokens]
    plain = StatefulDecoder(MODEL, make_device(device_name, 1))
    expected = prefill(plain, tokens, chunk=1)
    device = make_device(device_name, 2)
    decoder = StatefulDecoder(MODEL, device, ring_rows=16)
    check = StatefulDecoder(MODEL, device, ring_rows=16)
    prefill(decoder, tokens[:5], chunk=5)
    prefill(check, tokens[:5], chunk=5)
    position, accepted = 5, 0
    while position + 1 + num_predictions <= len(tokens):
        good = tokens[position + 1 : position + 1 + accepted]
        bad = wrong[position + 1 + accepted : position + 1 + num_predictions]
        logits = decoder.forward({0: ([tokens[position], *good, *bad], 1)})[0]
        assert same_bits(logits[: 1 + accepted], expected[position : position + 1 + accepted])
        prefill(check, tokens[check.sequences[0].computed : position + 1], chunk=1)
        assert all(same_bits(*pair) for pair in zip(decoder.states(), check.states(), strict=True))
        decoder.accept(0, accepted)
        position += 1 + accepted
        accepted = (accepted + 1) % (num_predictions + 1)


@ON_EVERY_DEVICE
def test_a_state_goes_on_in_another_slot_and_decoder(device_name):
    tokens = tokens_of()
    first = StatefulDecoder(MODEL, make_device(device_name, 1))
    expected = prefill(first, tokens, chunk=LENGTH)
    first, other = (StatefulDecoder(MODEL, make_device(device_name, 1), seed=seed) for seed in (0, 1))
    prefill(first, tokens[:37], chunk=37)
    page = np.zeros(DecoderConfig(MODEL).state_bytes(16), np.uint8)
    first.decoder.read_state(first.sequences[0].slot, page)
    other.decoder.write_state(other.sequences[0].slot, page)
    block = np.zeros(first.decoder.block_bytes, np.uint8)
    for mine, theirs in zip(first.sequences[0].blocks, other.sequences[0].blocks, strict=True):
        first.decoder.read_block(mine, block)
        other.decoder.write_block(theirs, block)
    other.sequences[0].computed = other.sequences[0].state = 37
    assert same_bits(prefill(other, tokens[37:], chunk=9), expected[37:])


@ON_EVERY_DEVICE
@pytest.mark.parametrize("num_predictions", [0, 6])
def test_a_state_kept_at_any_position_goes_on(device_name, num_predictions):
    """Replayed rows, those of the pass, and windows that begin in the ring."""
    tokens = tokens_of(60)
    wrong = [(token + 1) % MODEL.vocab_size for token in tokens]
    expected = prefill(StatefulDecoder(MODEL, make_device(device_name, 1)), tokens, chunk=60)
    for position in range(20, 34, 4 if device_name == EMULATION else 1):
        decoder = StatefulDecoder(MODEL, make_device(device_name, 1), num_sequences=2)
        first, second = decoder.sequences
        prefill(decoder, tokens[:20], chunk=20)
        for run, accepted in ((1, num_predictions), (2, 0), (13 - num_predictions, 0)):
            start = first.computed
            good, bad = (
                tokens[start : start + run + accepted],
                wrong[start + run + accepted :][: num_predictions - accepted],
            )
            is_kept = first.state <= position <= start + run
            decoder.forward({0: ([*good, *bad], run)}, kept=(second.slot, position) if is_kept else None)
            decoder.accept(0, accepted)
        second.computed = second.state = position
        second.blocks = first.blocks
        assert same_bits(prefill(decoder, tokens[position:], 9, index=1), expected[position:])


@ON_EVERY_DEVICE
def test_running_ahead_draws_what_single_passes_do(device_name):
    """Of several sequences, whose states stay before the tokens drawn, so that these can be taken back."""
    starts, counts = (20, 11, 1), (9, 2, 6)
    texts = [tokens_of(length, seed) for seed, length in enumerate(starts)]
    expected = [greedy(device_name, text, 10) for text in texts]
    decoder = StatefulDecoder(MODEL, make_device(device_name, 2), num_sequences=3)
    drawn = decoder.extend(
        {index: (text, len(text) - 1, count) for index, (text, count) in enumerate(zip(texts, counts, strict=True))}
    )
    assert drawn == [tokens[:count] for tokens, count in zip(expected, counts, strict=True)]
    # One accepts all, and the state follows; one takes all back; one goes on from its draws.
    second = decoder.extend({0: (drawn[0][-1:], -1, 1), 2: (drawn[2][-1:], -6, 4)})
    assert second == [expected[0][9:10], expected[2][6:10]]
    decoder.sequences[1].computed = len(texts[1])
    taken_back = [(token + 1) % MODEL.vocab_size for token in drawn[1]]
    assert decoder.extend({1: (taken_back, 1, 3)}) == [greedy(device_name, texts[1] + taken_back, 3)]


def greedy(device_name: str, tokens: list[int], count: int) -> list[int]:
    """The most likely next tokens, by passes over one token each."""
    decoder, tokens = StatefulDecoder(MODEL, make_device(device_name, 1)), list(tokens)
    for _ in range(count):
        tokens.append(int(prefill(decoder, tokens[decoder.sequences[0].computed :], chunk=1)[-1].argmax()))
    return tokens[-count:]


def test_a_run_that_cannot_be_taken_back_is_refused():
    decoder = StatefulDecoder(MODEL, make_device(isas()[0], 1), ring_rows=16)
    with pytest.raises(ValueError, match=re.escape("states[0].certain is 5; it must be in 0 ... 4")):
        decoder.extend({0: (tokens_of(5), 5, 2)})
    with pytest.raises(ValueError, match=re.escape("counts[0] is 15; it must be in 1 ... 13")):
        decoder.extend({0: (tokens_of(5), 4, 15)})


@ON_EVERY_DEVICE
def test_a_new_sequence_sees_nothing_of_its_slots_last_one(device_name):
    tokens = tokens_of(30)
    decoder = StatefulDecoder(MODEL, make_device(device_name, 1))
    expected = prefill(decoder, tokens, chunk=30)
    poison_states(decoder.decoder, [decoder.sequences[0].slot])
    decoder.sequences[0].computed = decoder.sequences[0].state = 0
    assert same_bits(prefill(decoder, tokens, chunk=4), expected)


def test_nan_in_a_state_stays_with_its_sequence():
    texts = [tokens_of(20, seed) for seed in range(2)]
    alone = StatefulDecoder(MODEL, make_device(isas()[0], 1))
    expected = prefill(alone, texts[0], chunk=20)
    decoder = StatefulDecoder(MODEL, make_device(isas()[0], 1), num_sequences=2)
    decoder.forward({index: (text[:10], 10) for index, text in enumerate(texts)})
    poison_states(decoder.decoder, [decoder.sequences[1].slot])
    logits = decoder.forward({index: (text[10:], 10) for index, text in enumerate(texts)})
    assert same_bits(logits[0], expected[10:])
    assert np.isnan(logits[1]).all()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"value_heads": 3}, "layers[0].value_heads is 3; it must be a multiple of key_heads = 2"),
        ({"key_heads": 0}, "layers[0].key_heads is 0; it must be in 1"),
        ({"taps": 0}, "layers[0].taps is 0; it must be in 2 ... 32"),
        ({"taps": 10**6}, "layers[0].taps is 1000000; it must be in 2 ... 32"),
        ({"key_dim": 48}, "layers[0].key_dim is 48; it must be a positive multiple of 32, at most 256"),
        ({"key_dim": 288}, "layers[0].key_dim is 288; it must be a positive multiple of 32, at most 256"),
        ({"value_dim": -32}, "layers[0].value_dim is -32; it must be a positive multiple of 32"),
        ({"value_heads": 1 << 24}, "the channels of layers[0]. is "),
    ],
)
def test_impossible_states_are_refused_by_field(changes, problem):
    delta = replace(MODEL.layers[0], **changes)
    with pytest.raises(ValueError, match=re.escape(problem)):
        DecoderConfig(replace(MODEL, layers=(delta, Attention())))


def test_layers_of_two_shapes_are_refused():
    other = replace(MODEL.layers[0], key_heads=4)
    with pytest.raises(ValueError, match=re.escape("layers[2]. has another shape than the first layer of its kind")):
        DecoderConfig(replace(MODEL, layers=(MODEL.layers[0], Attention(), other)))


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"slot": None}, "states[0].slot is -1; it must be in 0 ... 1"),
        ({"slot": 2}, "states[0].slot is 2; it must be in 0 ... 1"),
        ({"state_position": 41}, "states[0].position is 41; it must be in 27 ... 40"),
        ({"state_position": 26}, "states[0].position is 26; it must be in 27 ... 40"),
        ({"certain": 40, "rows": 14}, "states[0].certain is 40; it must be in 41 ... 54"),
    ],
)
def test_states_that_a_pass_cannot_go_on_from_are_refused(state, problem):
    decoder = StatefulDecoder(MODEL, make_device(isas()[0], 1), ring_rows=16).decoder
    batch = Batch(max_rows=64, max_sequences=1, max_blocks=4)
    given = {"slot": 0, "state_position": 40, **state}
    batch.append([1] * given.pop("rows", 2), position=40, blocks=[0, 1, 2, 3], num_logits=1, **given)
    with pytest.raises(ValueError, match=re.escape(problem)):
        decoder.forward(batch)


def test_two_sequences_never_share_a_slot():
    decoder = StatefulDecoder(MODEL, make_device(isas()[0], 1), num_sequences=2).decoder
    batch = Batch(max_rows=8, max_sequences=2, max_blocks=4)
    for _ in range(2):
        batch.append([1, 2], position=0, blocks=[0, 1, 2, 3], num_logits=1, slot=1)
    with pytest.raises(ValueError, match=re.escape("states[1].slot is 1, which other rows of the pass have")):
        decoder.forward(batch)


def test_no_pass_runs_before_there_are_slots():
    decoder = Decoder(Device.cpu(isas()[0], 1), DecoderConfig(MODEL), weights="f32", kv="f32", num_blocks=1)
    for name, values in random_weights(MODEL).items():
        decoder.load(name, values)
    batch = Batch(max_rows=8, max_sequences=1, max_blocks=1)
    batch.append([1], position=0, blocks=[0], num_logits=1, slot=0)
    with pytest.raises(RuntimeError, match="there are no slots for states yet"):
        decoder.forward(batch)
    with pytest.raises(ValueError, match="num_slots is 0; it must be in 1"):
        decoder.allocate_states(num_slots=0, ring_rows=8)
    with pytest.raises(ValueError, match="ring_rows is 3; it must be in 4"):
        decoder.allocate_states(num_slots=1, ring_rows=3)
