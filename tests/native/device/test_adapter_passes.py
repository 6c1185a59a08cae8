"""Adapters on a GPU: their passes beside recorded ones, many of them at once, other threads, and memory."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from services.engine.checkpoint.model_config import Attention
from services.engine.decoder.native import Device, DeviceError, Sampler
from tests.native.harness.devices import (
    EMULATION,
    count_launches,
    count_replays,
    emulated_device,
    make_device,
    needs_emulation,
    on_cuda,
)
from tests.native.harness.random_adapters import random_updates
from tests.native.harness.random_models import PLAIN, PagedDecoder, Row, random_tokens
from tests.native.harness.row_invariance import prefill, same_bits
from tests.native.harness.sampling_reference import Settings

LENGTH = 12
WIDE = replace(PLAIN, layers=(Attention(),), hidden_size=640, intermediate_size=1096)
"""Its matrices have more columns than one block of threads, and a last one that is not whole."""


def make_decoder(device: Device, ranks: list[int], num_sequences: int, *, weights: str = "bf16") -> PagedDecoder:
    """A decoder with an adapter for each rank, and sequences that ask for none yet."""
    paged = PagedDecoder(PLAIN, device, weights, tokens=random_tokens(PLAIN, num_sequences, LENGTH))
    for number, rank in enumerate(ranks):
        assert paged.decoder.add_adapter(0.5, random_updates(PLAIN, rank=rank, seed=number)) == number
    paged.batch.adapters[:] = -1
    return paged


def forward_by(paged: PagedDecoder, adapters: list[int], rows: list[Row]) -> NDArray[np.float32]:
    """A pass in which the sequences ask for these adapters."""
    paged.batch.adapters[: len(adapters)] = adapters
    return paged.forward(rows).copy()


@on_cuda
def test_passes_with_and_without_adapters_take_turns(device_name: str) -> None:
    """A recorded pass computes no adapter, and one with adapters is not recorded: which rows ask is not its shape."""
    rows = [(0, 0), (1, 0)]
    expected = {
        choice: forward_by(make_decoder(make_device(device_name, 1), [5, 8], 2), list(choice), rows)
        for choice in ((-1, -1), (0, -1), (-1, 1), (1, 0))
    }
    assert len({each.tobytes() for each in expected.values()}) == len(expected)
    paged = make_decoder(make_device(device_name, 1), [5, 8], 2)
    before = count_replays() if device_name == EMULATION else 0
    for _ in range(3):
        for choice, logits in expected.items():
            assert same_bits(forward_by(paged, list(choice), rows), logits), choice
    if device_name == EMULATION:
        assert count_replays() - before == 2  # of the three without an adapter


@on_cuda
@pytest.mark.parametrize("weights", ["bf16", "f32"])
def test_more_adapters_than_one_launch_takes(device_name: str, weights: str) -> None:
    """Their three changes of queries, keys and values are 48 updates."""
    ranks = [1 + number % 9 for number in range(16)]
    paged = make_decoder(make_device(device_name, 1), ranks, len(ranks), weights=weights)
    paged.batch.adapters[:] = range(len(ranks))
    alone = np.stack([prefill(paged, LENGTH, sequence) for sequence in range(len(ranks))])
    assert len({each.tobytes() for each in alone}) == len(ranks)
    for rows in (
        [(sequence, 0) for sequence in range(len(ranks))],
        [(sequence, position) for position in range(1, 4) for sequence in reversed(range(len(ranks)))],
    ):
        for row, logits in zip(rows, paged.forward(rows), strict=True):
            assert same_bits(logits, alone[row]), row


@needs_emulation
def test_one_row_and_many_of_a_wide_matrix_have_the_same_bits() -> None:
    """An update of one row has kernels of its own."""
    tokens = random_tokens(WIDE, 1, 6)
    for weights in ("bf16", "f32"):
        paged = PagedDecoder(WIDE, make_device(EMULATION, 1), weights, tokens=tokens)
        plain = prefill(paged, LENGTH)
        paged.decoder.add_adapter(0.5, random_updates(WIDE, rank=17))
        paged.batch.adapters[:] = 0
        before = count_launches()
        decoded, whole = prefill(paged, 1), prefill(paged, LENGTH)
        launched = {name.split("::")[-1] for name in count_launches() - before}
        assert same_bits(decoded, whole)
        assert not same_bits(plain, whole)
        numbers = "unsigned short" if weights == "bf16" else "float"
        assert {f"Up<{numbers}, {rows}>" for rows in (1, 4)} <= launched


@on_cuda
def test_a_run_of_draws_keeps_its_adapters(device_name: str) -> None:
    """The runs end at different times, so that rows leave the pass, those of adapters too."""
    counts = [5, 2, 4, 3]
    device = make_device(device_name, 1)
    paged = make_decoder(device, [3, 6], len(counts))
    paged.batch.adapters[:] = [0, 1, -1, 1]
    paged.batch.token_ids[: len(counts)] = paged.tokens[:, 0]
    sampler, greedy = Sampler(device), Settings(temperature=0.0)
    paged.forward([(sequence, 0) for sequence in range(len(counts))])
    states = [greedy.state(prompt=paged.tokens[sequence, :1].tolist()) for sequence in range(len(counts))]
    drawn = paged.decoder.extend(paged.batch, sampler, states, [[]] * len(counts), counts)
    assert [len(each) for each in drawn] == counts
    for sequence, own in enumerate(drawn):
        paged.tokens[sequence, 1 : len(own)] = own[:-1]
        logits = [paged.forward([(sequence, position)])[0] for position in range(len(own))]
        assert own == [int(each.argmax()) for each in logits]


@needs_emulation
def test_an_adapter_is_added_while_passes_are_recorded() -> None:
    """An upload on one thread does not become part of a recording on another."""
    paged = make_decoder(emulated_device(1), [], 1)
    expected = paged.forward([(0, 0)]).copy()
    is_done, errors, num_added = threading.Event(), list[Exception](), 0

    def add_and_remove() -> None:
        nonlocal num_added
        try:
            while not is_done.is_set():
                paged.decoder.remove_adapter(paged.decoder.add_adapter(1.0, random_updates(PLAIN, rank=2)))
                num_added += 1
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=add_and_remove)
    thread.start()
    while num_added < 100 and not errors:
        paged.decoder.record_passes(max_rows=16, max_blocks=1, seconds=60.0)
        paged.decoder.shorten_head(np.arange(10, dtype=np.int32))  # forgets what is recorded
        paged.decoder.shorten_head(np.zeros(0, np.int32))
    is_done.set()
    thread.join()
    assert errors == []
    assert same_bits(paged.forward([(0, 0)]), expected)


@needs_emulation
def test_memory_comes_back_with_the_adapter() -> None:
    device = emulated_device(1)
    paged = make_decoder(device, [], 1)
    updates = random_updates(PLAIN, rank=64)
    before = device.memory
    for _ in range(3):
        assert paged.decoder.add_adapter(1.0, updates) == 0
        assert device.memory != before
        paged.decoder.remove_adapter(0)
        assert device.memory == before


@needs_emulation
def test_an_adapter_too_large_is_refused_and_passes_still_run() -> None:
    device = emulated_device(1, memory=2)
    paged = make_decoder(device, [], 1)
    expected = paged.forward([(0, 0)]).copy()
    before = device.memory
    with pytest.raises(DeviceError, match=r"too little memory: .* GiB asked for"):
        paged.decoder.add_adapter(1.0, random_updates(PLAIN, rank=1024))
    assert device.memory == before
    assert paged.decoder.add_adapter(1.0, random_updates(PLAIN, rank=2, names=("q",))) == 0
    assert same_bits(paged.forward([(0, 0)]), expected)
