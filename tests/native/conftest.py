"""Fixtures of the native tests, and the choice of those that a default run and a quick run take.

Every combination of parameters is run by `make matrix`. The default run leaves out what is marked `exhaustive` here:

- A GPU runs all combinations.
- The best instruction set runs a covering choice of each test's combinations, in which each two values of different
  parameters occur together at least once. See `covering_choice`.
- The other instruction sets and the emulation of a GPU run one in which each value of each parameter occurs at least
  once, and each format of keys and values with each size of a head: by both of these a GPU's kernel is chosen.
- The emulation, which is slow, runs whole models in bf16 and int4 only, and with two threads of the host only, since no
  kernel runs on them. Products of one matrix run in every format.
- Tests of a whole model run for a few models on the emulation, and for the first of these on the other instruction
  sets: see `_KEPT`.

Two marks are for a quick run, `-m "not exhaustive and not containers and not process and not other_device"`: it starts
no processes, and runs on the best instruction set only.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import pytest
import torch

from services.engine.decoder.native import isas
from tests.harness.further import covering_choice, key_of
from tests.native.harness.devices import DEVICES, EMULATION, GPU, needs_emulation

_BEST_ISA = isas()[0]
_IN_ALL_COMBINATIONS = {None, GPU}
_OF_ONE_MATRIX = ("test_product", "test_embedding")
_KEPT: dict[str, tuple[str, ...]] = {
    "test_every_chunking_gives_the_same_logits": (),
    "test_native_prefill_in_pieces_gives_the_same_bits": (),
    "test_mixed_sequences_give_the_logits_of_each_alone": ("[plain-", "-many", "-biased"),
    "test_any_chunks_give_the_same_logits": ("-few",),
    "test_a_nan_sequence_harms_no_other_sequence": ("-few",),
    "test_native_in_bfloat16_is_as_exact_as_transformers": ("[llama-", "[gemma2-", "[phi3_longrope-"),
    "test_native_is_transformers_in_float32": ("[llama-", "[gemma3-", "[qwen3-"),
    "test_every_model_gives_the_same_logits_in_any_chunks": ("[plain-", "[both norms", "[short convolutions"),
    "test_replayed_passes_give_the_bits_of_a_whole_prefill": ("[both norms", "[short"),
}
"""Of tests of whole models, those that run beyond the best instruction set, by parts of their names; others all do."""

Values = Mapping[str, object]
"""Of the parameters of a test, by their names."""


@pytest.fixture(params=DEVICES)
def device_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["f32", "bf16"])
def number_format(request: pytest.FixtureRequest) -> str:
    """The number format of activations."""
    return str(request.param)


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """On matrices this small, torch's threads spend their time waiting for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what a default run leaves out as `exhaustive`, and what a quick run leaves out as `other_device`."""
    own = [item for item in items if isinstance(item, pytest.Function) and Path(__file__).parent in item.path.parents]
    combinations: dict[tuple[Path, str, object], list[pytest.Function]] = defaultdict(list)
    for item in own:
        device = _values(item).get("device_name")
        if device not in {None, _BEST_ISA} or needs_emulation.mark in item.iter_markers("skipif"):
            item.add_marker(pytest.mark.other_device)
        if device in _IN_ALL_COMBINATIONS or item.get_closest_marker("exhaustive"):
            continue
        if _is_spared(item):
            item.add_marker(pytest.mark.exhaustive)
        else:
            combinations[item.path, item.originalname, device].append(item)
    for alternatives in combinations.values():
        chosen = covering_choice([_to_be_covered(_values(item)) for item in alternatives])
        for index, item in enumerate(alternatives):
            if index not in chosen:
                item.add_marker(pytest.mark.exhaustive)


def _to_be_covered(values: Values) -> Set[object]:
    """The values of a combination, and those of its pairs that shall be in the choice too."""
    single = {(name, key_of(value)) for name, value in values.items()}
    if values["device_name"] == _BEST_ISA:
        return {frozenset(pair) for pair in itertools.combinations_with_replacement(single, 2)}
    of_kernel = {part for part in single if part[0] in {"kv_format", "head_dim"}}
    return {*single, frozenset(of_kernel)}


def _values(item: pytest.Function) -> Values:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _is_spared(item: pytest.Function) -> bool:
    """Whether its device leaves it out, see above."""
    values, kept = _values(item), _KEPT.get(item.originalname, ("",))
    if values["device_name"] == _BEST_ISA:
        return False
    if values["device_name"] != EMULATION:
        return not any(part in item.name for part in kept[:1])
    is_of_one_matrix = item.path.name == "test_weights.py" or item.name.startswith(_OF_ONE_MATRIX)
    is_other_format = values.get("weight_format") in {"f32", "int8", "fp8"} and not is_of_one_matrix
    return is_other_format or values.get("threads") in {1, 3} or not any(part in item.name for part in kept)
