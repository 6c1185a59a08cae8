"""A replayed pass computes what an enqueued pass computes, to the bit."""

import numpy as np
import pytest

from services.engine.decoder.native import DeviceError
from tests.native.harness.devices import (
    DEVICES,
    EMULATION,
    GPU,
    count_replays,
    emulated_device,
    make_device,
    needs_emulation,
)
from tests.native.harness.random_models import MODELS, PagedDecoder, random_tokens

LENGTH, SEQUENCES = 70, 3  # tokens: three blocks, so that the tables have columns to spare
POSITIONS = [0, 14, 29, 30, 47, 61, 62, 64, 66]  # three whose rows need one block, three two, and three three
on_recording_devices = pytest.mark.parametrize("device_name", [name for name in DEVICES if name in (EMULATION, GPU)])


@on_recording_devices
@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_replayed_passes_give_the_bits_of_a_whole_prefill(device_name, config):
    tokens = random_tokens(config, SEQUENCES, LENGTH)
    paged = PagedDecoder(config, make_device(device_name, threads=1), "bf16", tokens=tokens)
    everything = [(sequence, position) for sequence in range(SEQUENCES) for position in range(LENGTH)]
    whole = paged.forward(everything).reshape(SEQUENCES, LENGTH, -1)  # too many rows to be recorded
    before = count_replays() if device_name == EMULATION else 0
    for position in POSITIONS:
        for sequences in ([0], [1, 2], [0, 1, 2]):  # three rows of a sequence: 3, 6 and 9 are padded to 4, 8 and 16
            rows = [(sequence, position + row) for sequence in sequences for row in range(3)]
            logits = paged.forward(rows)
            expected = np.stack([whole[row] for row in rows])
            assert np.array_equal(logits.view(np.uint32), expected.view(np.uint32)), rows
    if device_name == EMULATION:
        num_shapes = 3 * 3  # of rows, and of one, two and four blocks
        assert count_replays() - before == 3 * len(POSITIONS) - num_shapes


@on_recording_devices
def test_a_pass_records_anew_when_its_memory_has_moved(device_name):
    config = MODELS["plain"]
    tokens = random_tokens(config, SEQUENCES, LENGTH)
    paged = PagedDecoder(config, make_device(device_name, threads=1), "bf16", tokens=tokens)
    one, all_rows = [(0, 0)], [(sequence, position) for sequence in range(SEQUENCES) for position in range(LENGTH)]
    logits = [paged.forward(one).copy() for _ in range(3)]
    paged.forward(all_rows)
    logits += [paged.forward(one).copy() for _ in range(3)]
    assert all(np.array_equal(each.view(np.uint32), logits[0].view(np.uint32)) for each in logits)


@needs_emulation
def test_a_device_without_room_for_a_pass_runs_smaller_ones():
    config = MODELS["plain"]
    tokens = random_tokens(config, 1, 300)
    paged = PagedDecoder(config, emulated_device(1, memory=2), "f32", tokens=tokens)
    first = paged.forward([(0, 0)]).copy()
    with pytest.raises(DeviceError, match="too little memory"):
        paged.decoder.reserve(max_rows=1 << 12, max_logits=1 << 12, max_sequences=1, max_blocks=16)
    for _ in range(3):
        assert np.array_equal(paged.forward([(0, 0)]), first)
