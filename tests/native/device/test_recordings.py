"""Passes that a device has recorded before anyone asked for them."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native import ReadProbe, isas
from tests.native.harness.devices import count_replays, emulated_device, make_device, needs_emulation
from tests.native.harness.random_models import MODELS, PLAIN, PagedDecoder, random_tokens
from tests.native.harness.row_invariance import same_bits

LENGTH = 40  # tokens: two blocks
EVERYTHING = [(0, position) for position in range(LENGTH)]
LONG = 600.0  # seconds
LEFT = 1 << 16  # bytes of memory: a probe takes multiples of it


def make_decoder(config=PLAIN) -> PagedDecoder:
    return PagedDecoder(config, emulated_device(1), "bf16", tokens=random_tokens(config, 1, LENGTH))


@needs_emulation
@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_the_first_pass_of_a_recorded_shape_is_a_replay(config):
    expected = make_decoder(config).forward(EVERYTHING)
    recorded = make_decoder(config)
    num_shapes = 5 * 2  # up to 16 rows, with tables of up to two blocks
    assert recorded.decoder.record_passes(max_rows=16, max_blocks=2, seconds=LONG) == num_shapes
    before = count_replays()
    passes = [EVERYTHING[:16], EVERYTHING[16:31], EVERYTHING[31:32], EVERYTHING[32:34], EVERYTHING[34:37]]
    logits = np.concatenate([recorded.forward(rows) for rows in passes])
    assert count_replays() - before == len(passes)
    assert same_bits(logits, expected[: len(logits)])


@needs_emulation
def test_passes_not_recorded_in_time_are_recorded_when_first_run():
    expected, late = make_decoder().forward(EVERYTHING), make_decoder()
    assert late.decoder.record_passes(max_rows=16, max_blocks=2, seconds=0.0) == 0
    before = count_replays()
    assert all(same_bits(late.forward(EVERYTHING[:1]), expected[:1]) for _ in range(3))
    assert count_replays() - before == 2


@needs_emulation
def test_passes_run_where_there_is_no_memory_to_record_them():
    deep = replace(PLAIN, layers=PLAIN.layers * 100)  # so that a recording takes more than what is left here
    device = emulated_device(1, memory=64)
    expected = make_decoder(deep).forward(EVERYTHING[:1])
    paged = PagedDecoder(deep, device, "bf16", tokens=random_tokens(deep, 1, LENGTH))
    assert same_bits(paged.forward(EVERYTHING[:1]), expected)
    probe, before = ReadProbe(device, device.memory[0] - LEFT), count_replays()
    assert 0 <= device.memory[0] <= LEFT
    assert all(same_bits(paged.forward(EVERYTHING[:1]), expected) for _ in range(3))
    assert count_replays() == before
    assert probe.bytes > 0


def test_a_cpu_records_nothing():
    paged = PagedDecoder(PLAIN, make_device(isas()[0], threads=1), "bf16", tokens=random_tokens(PLAIN, 1, LENGTH))
    assert paged.decoder.record_passes(max_rows=16, max_blocks=2, seconds=LONG) == 0
