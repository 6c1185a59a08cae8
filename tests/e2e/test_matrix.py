"""A subset of the matrix of equality in which every pair of circumstances occurs: the same bytes in every cell."""

import itertools
from collections.abc import Iterator

import pytest

from tests.e2e.cells import DRAFTED, MODELS, SETTINGS, Cell, covering_subset, drafted_cells, scripted_cells
from tests.e2e.processors import processors
from tests.e2e.rig import Rig
from tests.e2e.store import store_of_this_build
from tests.e2e.streams import streams_of

CELLS = scripted_cells(processors())
SUBSET = covering_subset(CELLS)
WITH_DRAFTS = covering_subset(drafted_cells(processors()[:1]), axes=("predictions", "company", "prefill", "fate"))


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(store_of_this_build(MODELS)) as rig:
        rig.make_references(dict.fromkeys(key for cell in (*SUBSET, *WITH_DRAFTS) for key in streams_of(cell)))
        yield rig


@pytest.mark.matrix
@pytest.mark.parametrize("cell", [*SUBSET, *WITH_DRAFTS], ids=lambda cell: cell.name)
def test_every_circumstance_gives_the_same_bytes(cell: Cell, rig: Rig):
    assert rig.run(cell).problems == []


def test_the_subset_has_every_value_of_every_axis_with_every_model_and_instruction_set():
    for axis in ("model", "isa"):
        for value in {getattr(cell.setup, axis) for cell in CELLS}:
            everywhere = {value for cell in CELLS for value in cell.circumstances if not value.startswith(f"{axis}=")}
            here = [cell for cell in SUBSET if getattr(cell.setup, axis) == value]
            assert everywhere <= {value for cell in here for value in cell.circumstances}


def test_in_the_subset_every_draft_meets_every_setting():
    met = {(cell.predictions, key.setting) for cell in WITH_DRAFTS for key in streams_of(cell)}
    assert met == set(itertools.product(DRAFTED, SETTINGS))
