"""The matrix of equality on published models: cells of tests/e2e in which the draft, or the server, is killed."""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from pathlib import Path

from services.engine.decoder.native import isas
from tests.e2e.harness.models import place
from tests.e2e.matrix.cells import Cell, Setup, by_setup
from tests.e2e.matrix.rig import Rig
from tests.e2e.matrix.store import CellResult, store_of_this_build
from tests.e2e.matrix.streams import streams_of

_DRAFTS = (("absent", "spared"), ("good", "spared"), ("paused", "spared"), ("killed", "spared"), ("good", "killed"))


def pair_cells(model: str, weights: str, draft_weights: str) -> list[Cell]:
    """In company, where each cell has a stream of every setting, and alone: with every fate of draft and server."""
    setup = Setup(model=model, isa=isas()[0], threads=2, source="draft", weights=weights)
    kinds = [("others", setting) for setting in ("greedy", "truncated", "grammar")] + [("alone", "greedy")]
    return [
        Cell(
            setup=setup,
            setting=setting,
            company=company,
            fate=fate,
            predictions=draft,
            draft_weights=draft_weights,
        )
        for company, setting in kinds
        for draft, fate in _DRAFTS
        if (company, draft) != ("alone", "absent")  # the reference is no other
    ]


def run_cells(cells: Seq[Cell], *, target: Path, draft: Path, say: Callable[[str], None]) -> list[CellResult]:
    """Run the cells of one model, but for those that have passed before with this build; those results are kept."""
    (model,) = {cell.setup.model for cell in cells}
    place(model, target=target, draft=draft)
    store = store_of_this_build([model])
    results = []
    for _, group in by_setup(cells):
        with Rig(store) as rig:
            for cell in group:
                if (result := store.result(cell)) is None or result.problems:
                    rig.make_references(streams_of(cell))
                    result = rig.run(cell)
                    say("\n    ".join([f"{result.seconds:6.1f} s  {result.name}", *(result.problems or ["passed"])]))
                results.append(result)
    return results
