"""A subset of the matrix of equality in which every pair of circumstances occurs: the same bytes in every cell."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from tests.e2e.cells import (
    ALL_AXES,
    DRAFTED,
    FURTHER,
    HEADS,
    HELD,
    KV,
    MODELS,
    OFTEN_DRAFTED,
    SETTINGS,
    WEIGHTS,
    Cell,
    Setup,
    covering_subset,
    drafted_cells,
    plainest,
    sampled_cells,
    scripted_cells,
    varied_candidates,
)
from tests.e2e.processors import processors
from tests.e2e.rig import Rig
from tests.e2e.store import store_of_this_build
from tests.e2e.streams import streams_of

_FEW = 200
AXES = [axis for axis in ALL_AXES if axis not in {"weights", "kv"}]  # each format has references of its own
BEST = processors()[0]


def _is_near(cell: Cell) -> bool:
    return (cell.setup.weights, cell.setup.kv) == ("bf16", "bf16") or (cell.setup.model, cell.setup.isa) == (
        "qwen3",
        BEST,
    )


def _varied(names: Iterable[str], source: str) -> list[Cell]:
    """A few of the varied cells there are: all of them would take long to choose from."""
    parts = itertools.product(MODELS, names, (source,), (_FEW,))
    return [*filter(_is_near, itertools.chain.from_iterable(itertools.starmap(varied_candidates, parts)))]


CELLS = [*scripted_cells(processors()), *_varied(processors(), "script")]
SUBSET = covering_subset(CELLS, axes=AXES)
DRAFTED_CELLS = [*drafted_cells([BEST]), *_varied([BEST], "draft")]
WITH_DRAFTS = covering_subset(DRAFTED_CELLS, axes=("predictions", "company", "prefill", "fate", "cache"))
FURTHER_CELLS = [  # each model of another kind once: the rest of them is in the whole matrix
    Cell(
        setup=Setup(model=model, isa=BEST, prefill="chunks", weights="stored" if model in HELD else "bf16"),
        setting="nucleus",
        company="others",
        predictions="mixed",
    )
    for model in FURTHER
] + [
    Cell(
        setup=Setup(model=model, isa=BEST, blocks="few", source="draft", weights=weights, kv="int8"),
        setting="nucleus",
        company="others",
        fate="killed",
        predictions="good",
        draft_weights="int4",
    )
    for model, weights in zip(OFTEN_DRAFTED, itertools.cycle(WEIGHTS), strict=False)
]
ALL = sorted((*SUBSET, *WITH_DRAFTS), key=lambda cell: (cell.setup.of_bytes, cell.setup != plainest(cell.setup), cell))
"""Those with the same references together, and first those that can be run on the server that has drawn them."""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(store_of_this_build(MODELS)) as rig:
        yield rig


@pytest.mark.lengthy
@pytest.mark.matrix
@pytest.mark.parametrize("cell", ALL, ids=lambda cell: cell.name)
def test_every_circumstance_gives_the_same_bytes(cell: Cell, rig: Rig):
    together = [other for other in ALL if other.setup.of_bytes == cell.setup.of_bytes]
    rig.make_references(dict.fromkeys(key for other in together for key in streams_of(other)))
    assert rig.run(cell).problems == []


@pytest.mark.matrix
@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, marks=[] if cell.setup.model in {"gptq", "qwen2_moe", "mxfp4"} else [pytest.mark.exhaustive])
        for cell in FURTHER_CELLS
    ],
    ids=lambda cell: f"{cell.setup.model}-{cell.setup.source}",
)
def test_further_architectures_and_quantised_weights_give_the_same_bytes(cell: Cell, rig: Rig):
    rig.make_references(dict.fromkeys(streams_of(cell)))
    assert rig.run(cell).problems == []


def test_the_subset_has_every_value_of_every_axis_with_every_model_and_instruction_set():
    for axis in ("model", "isa"):
        for value in {getattr(cell.setup, axis) for cell in CELLS}:
            here = [cell for cell in SUBSET if getattr(cell.setup, axis) == value]
            assert _values(CELLS, but=axis) <= _values(here, but=axis)


def test_the_subset_has_every_format():
    assert {(cell.setup.weights, cell.setup.kv) for cell in ALL} == {*itertools.product(WEIGHTS, KV)}
    assert {cell.draft_weights for cell in WITH_DRAFTS} == {"auto", *WEIGHTS}
    assert {cell.draft_kv for cell in WITH_DRAFTS} == {*KV}
    assert {cell.draft_head for cell in WITH_DRAFTS} == {*HEADS}


def _values(cells: Iterable[Cell], *, but: str) -> set[str]:
    axes = [axis for axis in AXES if axis != but]
    return {value for cell in cells for value in cell.circumstances if value.partition("=")[0] in axes}


def test_a_random_sample_has_as_many_cells_of_each_setting():
    sample = sampled_cells(CELLS, 3 * len(SETTINGS), seed=1)
    assert Counter(cell.setting for cell in sample) == dict.fromkeys(SETTINGS, 3)
    assert set(sample) != set(sampled_cells(CELLS, 3 * len(SETTINGS), seed=2))


def test_in_the_subset_every_draft_meets_every_setting():
    met = {(cell.predictions, key.setting) for cell in WITH_DRAFTS for key in streams_of(cell)}
    assert met == set(itertools.product(DRAFTED, SETTINGS))
