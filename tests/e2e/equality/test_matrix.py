"""A small part of the matrix of equality, in which every circumstance occurs: the same bytes in every cell.

`make matrix` runs the whole of it.
"""

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.e2e.matrix.cells import (
    CONSTRUCTED,
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
    attached_cells,
    covering_subset,
    drafted_cells,
    plainest,
    sampled_cells,
    scripted_cells,
    varied_candidates,
)
from tests.e2e.matrix.processors import processors
from tests.e2e.matrix.rig import Rig
from tests.e2e.matrix.store import store_of_this_build
from tests.e2e.matrix.streams import streams_of

_MANY = 1000
BEST = processors()[0]
_LARGE, VARIED = "demo", "qwen3"  # a model whose references take long, which tests/e2e/drafts has; one in all formats
_PLAIN = (VARIED, BEST, "bf16", "bf16")
_ELSEWHERE = {"random", "reworded"}  # drafts that take long: tests/e2e/drafts has wrong ones, and other vocabularies
_ALONE, _TOGETHER = "nucleus", "greedy"  # settings of cells whose streams run alone, and of those with drafts


def _is_cheap(cell: Cell) -> bool:
    """Whether its references are few: each model, instruction set and format has references of its own.

    Nine streams that run one after the other, and their references, take longer than nine at once, in any setting.
    """
    setup = cell.setup
    is_swift = setup.model != _LARGE and (setup.isa == BEST or setup.model == "llama")
    return is_swift and (cell.company == "others" or cell.setting == _ALONE)


def _scripted() -> list[Cell]:
    return [*filter(_is_cheap, [*scripted_cells(processors()), *varied_candidates(VARIED, BEST, "script", _MANY)])]


def _drafted() -> list[Cell]:
    """Of a target in one format, for drafts have their own; in company, but for one."""
    cells = [*drafted_cells([BEST]), *varied_candidates(VARIED, BEST, "draft", 5 * _MANY)]
    wanted = [cell for cell in cells if cell.setup.of_bytes == _PLAIN and cell.predictions not in _ELSEWHERE]
    return [
        cell
        for cell in wanted
        if (cell.company, cell.setting) == ("others", _TOGETHER)
        or (cell.predictions, cell.company, cell.setting) == ("good", "alone", _ALONE)
    ]


SCRIPTED_CELLS = covering_subset(_scripted(), in_pairs=False)
_DRAFT_AXES = ("predictions", "company", "prefill", "fate", "cache", "draft_weights", "draft_kv", "draft_head")
DRAFTED_CELLS = covering_subset(_drafted(), axes=_DRAFT_AXES, in_pairs=False)
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
ATTACHED_CELLS = [
    Cell(
        setup=Setup(model="one_step", isa=BEST, prefill="chunks", blocks="few", source="constructed head"),
        setting="nucleus",
        fate="killed",
        predictions="attached",
    ),
    Cell(
        setup=Setup(model="llama", isa=BEST, source="random head", kv="int8"),
        setting="greedy",
        company="others",
        predictions="attached",
        cache="warm",
    ),
    Cell(
        setup=Setup(model="mtp_one_step", isa=BEST, blocks="few", source="constructed layer", weights="int8"),
        setting="nucleus",
        fate="killed",
        predictions="attached",
    ),
    Cell(
        setup=Setup(model="ring", isa=BEST, prefill="chunks", blocks="few", source="constructed blocks"),
        setting="penalised",
        fate="killed",
        predictions="attached",
    ),
    Cell(
        setup=Setup(
            model="gemma4_one_step", isa=BEST, prefill="chunks", blocks="few", source="constructed assistant", kv="int8"
        ),
        setting="nucleus",
        fate="killed",
        predictions="attached",
    ),
]
ALL = sorted(
    (*SCRIPTED_CELLS, *DRAFTED_CELLS, *ATTACHED_CELLS),
    key=lambda cell: (cell.setup.of_bytes, cell.setup != plainest(cell.setup), cell),
)
"""Those with the same references together, and first those that can be run on the server that has drawn them."""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(store_of_this_build((*MODELS, *CONSTRUCTED))) as rig:
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
        pytest.param(cell, marks=[] if cell.setup.model == "gptq" else [pytest.mark.exhaustive])
        for cell in FURTHER_CELLS
    ],
    ids=lambda cell: f"{cell.setup.model}-{cell.setup.source}",
)
def test_further_architectures_and_quantisation_keep_the_bytes(cell: Cell, rig: Rig):
    rig.make_references(dict.fromkeys(streams_of(cell)))
    assert rig.run(cell).problems == []


def test_every_circumstance_occurs():
    values = {value for cell in ALL for value in cell.circumstances}
    whole = [*scripted_cells(processors()), *drafted_cells([BEST]), *varied_candidates(VARIED, BEST, "draft", _MANY)]
    whole += attached_cells([BEST])
    elsewhere = {f"model={_LARGE}", "source=trained head", *(f"predictions={name}" for name in _ELSEWHERE)}
    elsewhere |= {"model=mtp", "source=random layer", "source=random blocks", "source=random assistant"}
    elsewhere |= {"model=gemma4_small", "model=gemma4_moe"}
    assert {value for cell in whole for value in cell.circumstances} - elsewhere <= values


def test_every_format_occurs():
    assert {cell.setup.model for cell in ALL} == {*MODELS, *CONSTRUCTED} - {_LARGE, "mtp"}
    assert {cell.setup.weights for cell in ALL} == {*WEIGHTS}
    assert {cell.setup.kv for cell in ALL} == {*KV}
    assert {cell.draft_weights for cell in DRAFTED_CELLS} == {"auto", *WEIGHTS}
    assert {cell.draft_kv for cell in DRAFTED_CELLS} == {*KV}
    assert {cell.draft_head for cell in DRAFTED_CELLS} == {*HEADS}
    assert {cell.predictions for cell in DRAFTED_CELLS} == {*DRAFTED} - _ELSEWHERE


def test_a_random_sample_has_as_many_cells_of_each_setting():
    cells = scripted_cells(processors())
    sample = sampled_cells(cells, 3 * len(SETTINGS), seed=1)
    assert Counter(cell.setting for cell in sample) == dict.fromkeys(SETTINGS, 3)
    assert set(sample) != set(sampled_cells(cells, 3 * len(SETTINGS), seed=2))
