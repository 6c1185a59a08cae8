"""Adapters: rows with an adapter are computed by the changed weights, all others as if there were no adapters."""

import numpy as np
import pytest

from services.engine.decoder.native import isas
from tests.native.harness.devices import DEVICES, EMULATION, in_every_weight_format, is_cuda, make_device
from tests.native.harness.random_adapters import CHANGED, Updates, random_updates
from tests.native.harness.random_models import PLAIN, PagedDecoder, random_tokens, random_weights
from tests.native.harness.row_invariance import prefill, random_passes, same_bits

ADAPTERS = [-1, 0, 1, 0, -1]  # of the sequences; there is a third adapter that none asks for
RANKS = {0: 3, 1: 16, 2: 9}
SCALE = 0.75
LENGTH, LENGTH_EMULATED = 60, 20
on_every_device = pytest.mark.parametrize("device_name", DEVICES)


def updates(adapter: int, names: tuple[str, ...] = CHANGED) -> Updates:
    """A change of these weights of all layers."""
    return random_updates(PLAIN, rank=RANKS[adapter], names=names, seed=adapter)


def adapted(device_name: str, weight_format: str, threads: int = 1) -> PagedDecoder:
    """A decoder with all adapters, whose sequences ask for theirs; the second changes two weights only."""
    tokens = random_tokens(PLAIN, len(ADAPTERS), LENGTH_EMULATED if device_name == EMULATION else LENGTH)
    paged = PagedDecoder(PLAIN, make_device(device_name, threads), weight_format, tokens=tokens, seed=threads)
    for adapter in RANKS:
        names = ("v", "down") if adapter == 1 else CHANGED
        assert paged.decoder.add_adapter(SCALE, updates(adapter, names)) == adapter
    paged.batch.adapters[:] = ADAPTERS
    return paged


@in_every_weight_format
def test_a_row_has_the_same_bits_whatever_adapters_are_beside_it(device_name: str, weight_format: str) -> None:
    lone = adapted(device_name, weight_format)
    alone = np.stack([prefill(lone, 7, sequence) for sequence in range(len(ADAPTERS))])
    assert not any(same_bits(alone[index], alone[index - 1]) for index in range(len(ADAPTERS)))
    for threads in (3,) if is_cuda(device_name) else (1, 3):  # a GPU's kernels run on none of the host's
        mixed = adapted(device_name, weight_format, threads)
        for rows in random_passes(np.random.default_rng(threads), *mixed.tokens.shape):
            for row, logits in zip(rows, mixed.forward(rows), strict=True):
                assert same_bits(logits, alone[row]), f"sequence and position {row}"


@in_every_weight_format
def test_rows_without_adapter_match_a_decoder_without_adapters(device_name: str, weight_format: str) -> None:
    having = adapted(device_name, weight_format)
    without = PagedDecoder(PLAIN, make_device(device_name, 1), weight_format, tokens=having.tokens)
    for sequence, adapter in enumerate(ADAPTERS):
        left, right = prefill(having, 16, sequence), prefill(without, 16, sequence)
        assert same_bits(left, right) == (adapter < 0)


@on_every_device
def test_adapters_compute_what_merged_weights_do(device_name: str) -> None:
    having = adapted(device_name, "f32")
    merged = PagedDecoder(PLAIN, make_device(device_name, 1), "f32", tokens=having.tokens)
    for name, (down, up) in updates(0).items():
        merged.decoder.load(name, random_weights(PLAIN)[name] + np.float32(SCALE) * (up @ down))
    expected, plain = prefill(merged, LENGTH, 1), prefill(adapted(device_name, "f32"), LENGTH, 0)
    error = np.abs(prefill(having, LENGTH, 1) - expected).max()
    assert error < 1e-4 * np.abs(expected).max() < np.abs(plain - expected).max()


@on_every_device
def test_rounded_to_bf16_it_computes_nearly_the_same(device_name: str) -> None:
    """Both the adapter and what it reads are rounded."""
    exact, rounded, without = (adapted(device_name, each) for each in ("f32", "bf16", "f32"))
    without.batch.adapters[:] = -1
    for sequence in (1, 2):
        expected, plain = prefill(exact, 16, sequence), prefill(without, 16, sequence)
        assert np.abs(prefill(rounded, 16, sequence) - expected).max() < 0.1 * np.abs(plain - expected).max()


REFUSED = {
    "a weight that is none": ({"layers.0.norm": ((3, 64), (64, 3))}, "no weight named"),
    "a vector": ({"final_norm": ((3, 64), (64, 3))}, "is no matrix"),
    "the embedding": ({"embedding": ((3, 64), (64, 3))}, "none that an adapter changes"),
    "other ranks": ({"layers.0.q": ((3, 64), (64, 4))}, "the rank of up is 4"),
    "no rank": ({"layers.0.q": ((0, 64), (64, 0))}, "the rank of down is 0"),
    "too large a rank": ({"layers.0.q": ((1025, 64), (64, 1025))}, "the rank of down is 1025"),
    "other inputs": ({"layers.0.q": ((3, 63), (64, 3))}, "the inputs of down is 63"),
    "other outputs": ({"layers.0.q": ((3, 64), (63, 3))}, "the outputs of up is 63"),
    "one dimension": ({"layers.0.q": ((64,), (64, 3))}, "two dimensions"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_an_adapter_that_fits_no_weight_is_refused_and_not_added(why: str) -> None:
    shapes, problem = REFUSED[why]
    sizes = {64: PLAIN.hidden_size, 63: PLAIN.hidden_size - 1}
    paged = PagedDecoder(PLAIN, make_device(isas()[0], 1), "bf16", tokens=random_tokens(PLAIN, 1, 4))
    changes = {
        name: tuple(np.ones([sizes.get(size, size) for size in shape], np.float32) for shape in pair)
        for name, pair in shapes.items()
    }
    with pytest.raises(ValueError, match=problem.replace("63", str(PLAIN.hidden_size - 1))):
        paged.decoder.add_adapter(1.0, changes)  # type: ignore[arg-type]
    assert paged.decoder.add_adapter(1.0, updates(0)) == 0


@pytest.mark.parametrize(("scale", "value"), [(np.nan, 1.0), (np.inf, 1.0), (1.0, np.nan), (1.0, -np.inf)])
def test_numbers_that_are_not_finite_are_refused(scale: float, value: float) -> None:
    paged = PagedDecoder(PLAIN, make_device(isas()[0], 1), "bf16", tokens=random_tokens(PLAIN, 1, 4))
    changes = updates(0)
    changes["layers.0.q"][1][-1, -1] = value
    with pytest.raises(ValueError, match=r"finite|infinity"):
        paged.decoder.add_adapter(scale, changes)


def test_an_adapter_that_is_not_there_is_refused() -> None:
    paged = adapted(isas()[0], "bf16")
    paged.batch.adapters[0] = len(RANKS)
    with pytest.raises(ValueError, match=f"adapters is {len(RANKS)}; it must be in -1 ... {len(RANKS) - 1}"):
        paged.forward([(0, 0)])
