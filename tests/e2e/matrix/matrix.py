"""The matrix of equality: `python -m tests.e2e.matrix` runs every cell that has not passed yet for this build.

Results are kept in `.matrix`, in a folder for this build, so that an interrupted run continues where it was. Two cells
run at a time: the bytes do not depend on the machine's other work.
"""

import argparse
import multiprocessing
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from collections.abc import Sequence as Seq
from concurrent.futures import Future, ProcessPoolExecutor, as_completed

from tests.e2e.harness.models import draft_folder, folder, head_folder
from tests.e2e.matrix.cells import (
    ATTACHED,
    CONSTRUCTED,
    FURTHER,
    MODELS,
    Cell,
    all_cells,
    by_setup,
    covering_subset,
    sampled_cells,
)
from tests.e2e.matrix.processors import processors
from tests.e2e.matrix.rig import Rig
from tests.e2e.matrix.store import CellResult, Store, store_of_this_build
from tests.e2e.matrix.streams import StreamKey, streams_of


def main() -> int:
    """Run the cells that are asked for; returns the exit code."""
    arguments = _arguments()
    for model in (*MODELS, *FURTHER, *CONSTRUCTED):
        folder(model)  # written once, before the workers need it
    for source, models in ATTACHED.items():
        for model in models:
            head_folder(model, source)
    for model in MODELS:
        for kind in ("good", "random", "reworded"):
            draft_folder(model, kind)
    store = store_of_this_build((*MODELS, *FURTHER, *CONSTRUCTED))
    cells = [cell for cell in all_cells(arguments.isa) if all(part in cell.name for part in arguments.only)]
    cells = covering_subset(cells) if arguments.covering else cells
    if arguments.sample:
        cells = sampled_cells(cells, arguments.sample, arguments.seed)
    missing = [cell for cell in cells if not _has_passed(store, cell)]
    print(f"matrix: {len(cells)} cells, {len(cells) - len(missing)} passed before, in {store.root}", flush=True)
    _run(store, missing, arguments.workers)
    return _summarise(store, cells)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.matrix", description="Run the matrix of equality.")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="cells to run at a time (default: 2)")
    parser.add_argument("--isa", action="append", choices=processors(), help="only there (default: on all)")
    only = "only cells whose name has this in it; of several, all"
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help=only)
    parser.add_argument("--covering", action="store_true", help="only so many cells that every pair of values occurs")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many of these, at random, of all settings")
    parser.add_argument("--seed", type=int, default=0, help="of the random choice (default: 0)")
    arguments = parser.parse_args()
    arguments.isa = arguments.isa or processors()
    return arguments


def _has_passed(store: Store, cell: Cell) -> bool:
    result = store.result(cell)
    return result is not None and not result.problems


def _can_run(store: Store, cell: Cell) -> bool:
    """Whether all of its streams have references; a useless one is not kept."""
    return all(map(store.has_reference, streams_of(cell)))


def _run(store: Store, cells: Seq[Cell], workers: int) -> None:
    """Make all references first, then run the cells of one setup after those of another, the slowest ISA first."""
    started = time.monotonic()
    keys = dict.fromkeys(key for cell in cells for key in streams_of(cell))
    parts: dict[Hashable, list[StreamKey]] = defaultdict(list)
    for key in keys:
        parts[key.model, key.isa, key.weights, key.kv].append(key)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent) as pool:
        _wait([pool.submit(_make_references, store, part) for part in reversed([*parts.values()])])
        runnable = [cell for cell in cells if _can_run(store, cell)]
        groups = sorted(by_setup(runnable), key=lambda group: -processors().index(group[0].isa))
        _wait([pool.submit(_run_cells, store, group) for _, group in groups])
    print(f"matrix: {len(runnable)} cells in {(time.monotonic() - started) / 60:.1f} minutes", flush=True)


def _wait(futures: Seq[Future[None]]) -> None:
    for future in as_completed(futures):
        future.result()


def _make_references(store: Store, keys: Seq[StreamKey]) -> None:
    with Rig(store) as rig:
        rig.make_references(keys)


def _run_cells(store: Store, cells: Seq[Cell]) -> None:
    with Rig(store) as rig:
        for cell in cells:
            _report(rig.run(cell))


def _end_with_parent() -> None:
    """However the run ends: its workers go with it, and with them their servers."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _report(result: CellResult) -> None:
    lines = [f"{'FAILED' if result.problems else 'passed'} {result.seconds:6.1f} s  {result.name}", *result.problems]
    print("\n    ".join(lines), flush=True)


def _summarise(store: Store, cells: Seq[Cell]) -> int:
    passed = {cell: _has_passed(store, cell) for cell in cells}
    values: tuple[Callable[[Cell], str], ...] = (lambda cell: cell.setup.isa, lambda cell: cell.setting)
    untested = []
    for value_of in values:
        counts = Counter(value_of(cell) for cell, ok in passed.items() if ok)
        for value, count in Counter(map(value_of, cells)).items():
            print(f"matrix: {value}: {counts[value]} of {count} passed")
            if not counts[value]:
                untested.append(value)
    skipped = [cell for cell in cells if not passed[cell] and not _can_run(store, cell)]
    failed = [cell for cell in cells if not passed[cell] and cell not in skipped]
    for outcome, some in (("skipped, its reference is useless", skipped), ("failed", failed)):
        for cell in some:
            print(f"matrix: {outcome}: {cell.name}")
    num_passed = sum(passed.values())
    print(f"matrix: {len(cells)} cells, {num_passed} passed, {len(skipped)} skipped, {len(failed)} failed")
    if untested:
        print(f"matrix: no cell passed with {', '.join(untested)}")
    return 1 if failed or untested or not cells else 0
