"""A model on several devices, which has the bits of one.

The emulation makes as many devices as are wanted. One GPU can hold several ranks, which shows the bits, not the speed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from services.engine.checkpoint.model_config import Attention, ModelConfig, QkNorm
from services.engine.config import MOST_RANKS, WEIGHT_FORMATS
from services.engine.decoder.native import Decoder, DecoderConfig, Device, DeviceError, ReadProbe, isas
from services.engine.decoder.native.testing import poison, poison_states
from tests.native.drafting.test_features import BOUNDARIES, DRAFTER
from tests.native.harness.devices import count_replays, emulated_device, make_device, needs_emulation, on_cuda
from tests.native.harness.random_adapters import random_updates
from tests.native.harness.random_models import EXPERT_MODELS, MODELS, PLAIN, PagedDecoder, random_tokens, random_weights
from tests.native.harness.row_invariance import prefill, same_bits
from tests.native.harness.stateful_decoder import StatefulDecoder
from tests.native.recurrence.test_gated_delta import MODEL as STATEFUL

LENGTH = 40


def divisible(config: ModelConfig, ranks: int) -> ModelConfig:
    """A model like this one, of the least sizes by which so many devices can divide it."""

    def rounded(size: int, unit: int) -> int:
        return -(-size // unit) * unit

    layers = tuple(
        replace(
            layer,
            num_kv_heads=layer.num_kv_heads and rounded(layer.num_kv_heads, ranks),
            mlp_size=layer.mlp_size and rounded(layer.mlp_size, 2 * ranks),
        )
        if isinstance(layer, Attention)
        else layer
        for layer in config.layers
    )
    kv_heads = rounded(config.num_kv_heads, ranks)
    return replace(
        config,
        layers=layers,
        num_kv_heads=kv_heads,
        num_heads=kv_heads * (config.num_heads // config.num_kv_heads),
        hidden_size=rounded(config.hidden_size, ranks),
        intermediate_size=rounded(config.intermediate_size, 2 * ranks),
        experts=config.experts and replace(config.experts, size=rounded(config.experts.size, 2 * ranks)),
    )


SHARED: Mapping[str, ModelConfig] = {
    name: config for name, config in {**MODELS, **EXPERT_MODELS}.items() if config.qk_norm is not QkNorm.FULL
}
STATE_LAYER = STATEFUL.layers[0]
LARGER = divisible(replace(PLAIN, vocab_size=151, num_kv_heads=4, num_heads=8), MOST_RANKS)


def devices(name: str, ranks: int) -> list[Device]:
    return [make_device(name, threads=1) for _ in range(ranks)]


@on_cuda
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("weight_format", WEIGHT_FORMATS)
@pytest.mark.parametrize("config", SHARED.values(), ids=SHARED)
def test_several_devices_give_the_logits_of_one(device_name, config, weight_format, ranks):
    config = divisible(config, ranks)
    tokens = random_tokens(config, 1, LENGTH)
    one = prefill(PagedDecoder(config, make_device(device_name, 1), weight_format, tokens=tokens), LENGTH)
    several = PagedDecoder(config, devices(device_name, ranks), weight_format, tokens=tokens)
    assert same_bits(prefill(several, LENGTH), one)
    rows = [(0, position) for position in range(LENGTH)]
    again = [several.forward(rows[:9]), *(several.forward([row]) for row in rows[9:12]), several.forward(rows[12:])]
    assert same_bits(np.concatenate(again), one)


@on_cuda
@pytest.mark.parametrize("ranks", [3, 8, *(pytest.param(ranks, marks=pytest.mark.exhaustive) for ranks in (2, 4, 5))])
def test_any_number_of_devices_gives_the_same_in_any_chunks(device_name, ranks):
    config = divisible(LARGER, ranks)
    tokens = random_tokens(config, 2, 70)
    mixed = [(sequence, position) for position in range(70) for sequence in (1, 0)]
    one = PagedDecoder(config, make_device(device_name, 1), "bf16", tokens=tokens).forward(mixed)
    assert len({row.tobytes() for row in one}) > 100
    several = PagedDecoder(config, devices(device_name, ranks), "bf16", tokens=tokens)
    ends = [0, 1, 3, 20, 53, 140]
    parts = [several.forward(mixed[first:end]) for first, end in pairwise(ends)]
    assert same_bits(np.concatenate(parts), one)


@on_cuda
@pytest.mark.parametrize("weight_format", ["f32", "bf16", "int4"])
def test_adapters_change_several_devices_as_one(device_name, weight_format):
    config = divisible(PLAIN, 2)
    logits = []
    for where in (make_device(device_name, 1), devices(device_name, 2)):
        paged = PagedDecoder(config, where, weight_format, tokens=random_tokens(config, 3, 30))
        first = paged.decoder.add_adapter(0.5, random_updates(config, rank=9))
        other = paged.decoder.add_adapter(2.0, random_updates(config, rank=3, names=("k", "down"), seed=1))
        paged.batch.adapters[:] = [first, -1, other]
        logits.append(paged.forward([(sequence, position) for position in range(30) for sequence in range(3)]).copy())
        paged.decoder.remove_adapter(first)
        with pytest.raises(ValueError, match="number 0 was removed"):
            paged.forward([(0, 0)])
        paged.batch.adapters[:] = [-1, -1, other]
        logits.append(paged.forward([(sequence, 0) for sequence in range(3)]).copy())
    assert same_bits(logits[2], logits[0])
    assert same_bits(logits[3], logits[1])
    assert not same_bits(logits[0][:3], logits[1])


def beside_a_small_device(
    length: int,
) -> tuple[PagedDecoder, PagedDecoder, Callable[[], AbstractContextManager[None]]]:
    """A model on one device, the same on two, and what leaves the second of these no memory for a while."""
    tokens, small = random_tokens(PLAIN, 1, length), emulated_device(1, memory=64)
    one = PagedDecoder(PLAIN, emulated_device(1), "bf16", tokens=tokens)
    several = PagedDecoder(PLAIN, [emulated_device(1), small], "bf16", tokens=tokens)

    @contextmanager
    def fill_second() -> Iterator[None]:
        probe = ReadProbe(small, small.memory[0] - (1 << 16))
        yield
        assert probe.bytes > 0

    return one, several, fill_second


@needs_emulation
def test_an_adapter_is_on_all_devices_or_on_none():
    one, several, fill_second = beside_a_small_device(30)
    rows = [(0, position) for position in range(30)]
    several.forward(rows)  # allocates its buffers
    with fill_second(), pytest.raises(DeviceError, match="too little memory"):
        several.decoder.add_adapter(0.5, random_updates(PLAIN, rank=256))
    updates = random_updates(PLAIN, rank=9, seed=1)
    assert several.decoder.add_adapter(0.5, updates) == one.decoder.add_adapter(0.5, updates) == 0
    several.batch.adapters[:] = one.batch.adapters[:] = [0]
    assert same_bits(several.forward(rows), one.forward(rows))


@needs_emulation
def test_devices_that_are_out_of_step_compute_no_more():
    config = divisible(PLAIN, 2)
    small = [emulated_device(1, block_memory=60) for _ in range(2)]  # a product's launch fails on both
    several = PagedDecoder(config, small, "bf16", tokens=random_tokens(config, 1, LENGTH))
    with pytest.raises(DeviceError, match="too much shared memory"):
        several.forward([(0, 0)])
    with pytest.raises(RuntimeError, match=r"^a pass has failed on one of the devices that hold the model$"):
        several.forward([(0, 0)])


@on_cuda
def test_pages_of_several_devices_hold_all_heads(device_name):
    config = divisible(PLAIN, 2)
    tokens = random_tokens(config, 1, LENGTH)
    rows = [(0, position) for position in range(LENGTH)]
    paged = PagedDecoder(config, devices(device_name, 2), "bf16", tokens=tokens)
    expected = paged.forward(rows)
    decoder, table = paged.decoder, paged.batch.block_tables[0].tolist()
    alone = Decoder(make_device(device_name, 1), DecoderConfig(config), weights="bf16", kv="bf16", num_blocks=1)
    assert decoder.block_bytes == alone.block_bytes
    assert 2 * decoder.kv_bytes_per_token == alone.kv_bytes_per_token
    pages = [np.empty(decoder.block_bytes, np.uint8) for _ in table]
    for block, page in zip(table, pages, strict=True):
        decoder.read_block(block, page)
    poison(decoder, range(decoder.num_blocks))
    for block, page in zip(reversed(table), pages, strict=True):
        decoder.write_block(block, page)
    free = next(block for block in range(decoder.num_blocks) if block not in table)
    decoder.copy_block(table[1], free)
    paged.batch.block_tables[0] = [free, table[0]]
    assert same_bits(paged.forward(rows[-1:]), expected[-1:])


@on_cuda
@pytest.mark.parametrize("weight_format", ["f32", "bf16", "int4"])
def test_several_devices_carry_the_states_of_one(device_name, weight_format):
    config = divisible(STATEFUL, 2)
    tokens = random_tokens(config, 1, 60)[0].tolist()
    one = StatefulDecoder(config, make_device(device_name, 1), weight_format).forward({0: (tokens, 60)})[0]
    several = StatefulDecoder(config, devices(device_name, 2), weight_format)
    first = several.forward({0: (tokens[:20], 14)})[0]  # six rows of it may be rejected
    several.accept(0, 6)
    page = np.zeros(DecoderConfig(config).state_bytes(several.ring_rows), np.uint8)
    slot, other = several.sequences[0].slot, 1 - several.sequences[0].slot
    several.decoder.read_state(slot, page)
    poison_states(several.decoder, [0, 1])
    several.decoder.write_state(other, page)
    several.decoder.copy_state(other, slot)
    parts = [several.forward({0: (tokens[begin : begin + 20], 20)})[0] for begin in (20, 40)]
    assert same_bits(np.concatenate([first, *parts]), one)


@on_cuda
def test_adapters_change_states_of_several_devices_as_of_one(device_name):
    config, logits = divisible(STATEFUL, 2), []
    tokens = random_tokens(config, 1, 30)[0].tolist()
    names = ("delta_qkv", "delta_z", "delta_a", "delta_out", "o")
    for where in (devices(device_name, 1), devices(device_name, 2)):
        decoder = StatefulDecoder(config, where, "bf16")
        number = decoder.decoder.add_adapter(0.5, random_updates(config, rank=9, names=names))
        logits.append(decoder.forward({0: (tokens, 30)}, adapter=number)[0])
    plain = StatefulDecoder(config, devices(device_name, 1), "bf16").forward({0: (tokens, 30)})[0]
    assert same_bits(logits[1], logits[0])
    assert not same_bits(logits[0], plain)


@on_cuda
@pytest.mark.parametrize("is_tied", [False, True])
def test_a_head_drafts_for_a_model_on_several_devices(device_name, is_tied):
    config = divisible(replace(PLAIN, tied_embeddings=is_tied), 2)
    tokens = random_tokens(config, 1, LENGTH)
    rows, logits = [(0, position) for position in range(LENGTH)], []
    for where in (devices(device_name, 1), devices(device_name, 2)):
        target = PagedDecoder(config, where, "bf16", tokens=tokens)
        target.decoder.keep_features(BOUNDARIES)
        next_tokens = np.roll(tokens, -1, axis=1)
        head = PagedDecoder(DRAFTER, where[0], "bf16", tokens=next_tokens, target=target.decoder)
        lacking = head.decoder.missing_weights()
        assert lacking == ([] if is_tied or len(where) == 1 else ["lm_head"])
        for name in lacking:
            head.decoder.load(name, random_weights(config)[name])
        results = target.run(rows)
        head.decoder.read_features(results, range(LENGTH))
        logits.append((results.logits.numpy(), head.forward(rows)))
    (one, drafted_by_one), (several, drafted_by_several) = logits
    assert same_bits(several, one)
    assert same_bits(drafted_by_several, drafted_by_one)


@needs_emulation
def test_recorded_passes_of_several_devices_are_replayed():
    config = divisible(PLAIN, 2)
    tokens = random_tokens(config, 1, LENGTH)
    rows = [(0, position) for position in range(LENGTH)]
    expected = PagedDecoder(config, emulated_device(1), "bf16", tokens=tokens).forward(rows)
    several = PagedDecoder(config, [emulated_device(1) for _ in range(2)], "bf16", tokens=tokens)
    assert several.decoder.record_passes(max_rows=16, max_blocks=2, seconds=600.0) == 10
    before = count_replays()
    logits = np.concatenate([several.forward(part) for part in (rows[:16], rows[16:31], rows[31:32])])
    assert count_replays() - before == 3 * 2
    assert same_bits(logits, expected[:32])
    assert same_bits(several.forward(rows), expected)  # for which memory moves
    assert same_bits(several.forward(rows[:1]), expected[:1])


@on_cuda
def test_a_refused_batch_leaves_the_devices_in_step(device_name):
    config = divisible(PLAIN, 2)
    several = PagedDecoder(config, devices(device_name, 2), "bf16", tokens=random_tokens(config, 1, LENGTH))
    rows = [(0, position) for position in range(LENGTH)]
    expected = several.forward(rows)
    several.batch.block_tables[0, 0] += several.decoder.num_blocks
    with pytest.raises(ValueError, match="block"):
        several.decoder.forward(several.batch)
    several.batch.block_tables[0, 0] -= several.decoder.num_blocks
    assert same_bits(several.forward(rows), expected)


@needs_emulation
def test_a_pass_that_one_device_cannot_hold_is_run_by_none():
    one, several, fill_second = beside_a_small_device(200)
    rows = [(0, position) for position in range(200)]
    assert same_bits(several.forward(rows[:2]), one.forward(rows[:2]))
    with fill_second(), pytest.raises(DeviceError, match="too little memory"):
        several.forward(rows[2:])
    assert same_bits(several.forward(rows[2:]), one.forward(rows[2:]))


@on_cuda
def test_a_pass_without_logits_is_computed_by_all_devices(device_name):
    config = divisible(PLAIN, 2)
    tokens = random_tokens(config, 1, 3)
    logits = []
    for ranks in (1, 2):
        paged = PagedDecoder(config, devices(device_name, ranks), "bf16", tokens=tokens)
        paged.run([(0, 0)], num_logits=0)
        logits.append(paged.forward([(0, 1), (0, 2)]))
    assert np.isfinite(logits[0]).all()
    assert same_bits(logits[1], logits[0])


@on_cuda
def test_each_device_holds_its_part_of_the_weights(device_name):
    def bytes_of(ranks: int, config: ModelConfig) -> int:
        decoder = Decoder(devices(device_name, ranks), DecoderConfig(config), weights="bf16", kv="bf16")
        return int(decoder.weight_bytes)

    config = divisible(PLAIN, 2)
    hidden = config.hidden_size
    norms = (2 * len(config.layers) + 1) * hidden * 4  # which both have
    assert 2 * (bytes_of(2, config) - norms) == bytes_of(1, config) - norms


@on_cuda
@pytest.mark.parametrize(
    ("change", "ranks", "message"),
    [
        ({"num_kv_heads": 2}, 4, "num_kv_heads is 2; it must be a multiple of 4 on 4 devices"),
        ({"num_kv_heads": 2}, 4, "(numbers of devices that fit: 1, 2)"),
        ({"hidden_size": 70}, 4, "hidden_size is 70; it must be a multiple of 4 on 4 devices"),
        ({"intermediate_size": 100}, 4, "intermediate_size is 100; it must be a multiple of 8 on 4 devices"),
        ({"layers": (Attention(mlp_size=98),) * 2}, 4, "layers[0].mlp_size is 98; it must be a multiple of 8"),
        ({"layers": (Attention(num_kv_heads=1),) * 2}, 2, "layers[0].num_kv_heads is 1; it must be a multiple of 2"),
        (
            {"layers": (replace(STATE_LAYER, key_heads=2),) * 2},
            4,
            "layers[0].key_heads is 2; it must be a multiple of 4",
        ),
        ({"qk_norm": QkNorm.FULL}, 2, 'qk_norm is "full"; it must be "none", "head" or "each" on 2 devices'),
        ({}, MOST_RANKS + 1, f"the number of devices is {MOST_RANKS + 1}; it must be in 1 ... {MOST_RANKS}"),
        ({}, 0, f"the number of devices is 0; it must be in 1 ... {MOST_RANKS}"),
    ],
)
def test_a_model_that_cannot_be_divided_is_refused_by_the_field(device_name, change, ranks, message):
    config = replace(divisible(PLAIN, 4), **change)
    with pytest.raises(ValueError, match=re.escape(message)):
        Decoder(devices(device_name, ranks), DecoderConfig(config), weights="bf16", kv="bf16")


@on_cuda
def test_a_device_cannot_be_two_ranks(device_name):
    device = make_device(device_name, 1)
    with pytest.raises(ValueError, match=r"^devices: the same one is given twice$"):
        Decoder([device, device], DecoderConfig(divisible(PLAIN, 2)), weights="bf16", kv="bf16")


@on_cuda
def test_a_head_is_on_the_first_device_of_its_target(device_name):
    several = devices(device_name, 2)
    target = Decoder(several, DecoderConfig(divisible(PLAIN, 2)), weights="bf16", kv="bf16")
    with pytest.raises(ValueError, match=r"^device: must be that of the target, or the first one$"):
        Decoder(several[1], DecoderConfig(DRAFTER), weights="bf16", kv="bf16", target=target)


def test_cpus_do_not_divide_a_model():
    cpus = [Device.cpu(isas()[0], 1) for _ in range(2)]
    with pytest.raises(ValueError, match=r"^devices: only GPUs can hold a model together$"):
        Decoder(cpus, DecoderConfig(divisible(PLAIN, 2)), weights="bf16", kv="bf16")


@on_cuda
def test_a_decoder_on_several_devices_does_not_draft(device_name):
    config = divisible(PLAIN, 2)
    several = Decoder(devices(device_name, 2), DecoderConfig(config), weights="bf16", kv="bf16")
    with pytest.raises(ValueError, match="a decoder that drafts must be on one device"):
        several.shorten_head(np.arange(3, dtype=np.int32))
