"""Cell: one way to run a model that must not change a byte; all cells, and a subset that covers every pair."""

import itertools
import random
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

MODELS = ("demo", "llama", "qwen3", "gemma2")
SETTINGS = ("greedy", "nucleus", "truncated", "penalised", "stopped", "grammar", "banned")
SCRIPTED = ("right", "wrong", "mixed")
DRAFTED = ("absent", "garbage", "delayed", "random", "good", "paused", "killed")


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Setup:
    """What a server process is started with."""

    model: str
    isa: str  # or any other of processors()
    prefill: str = "whole"  # or "chunks", of 16 tokens
    threads: int = 1
    blocks: str = "plenty"  # or "few": so few that sequences are preempted
    source: str = "script"  # of predictions; or "draft": a service of its own

    @property
    def name(self) -> str:
        """For file names and progress."""
        return "-".join(str(getattr(self, field.name)) for field in fields(self))


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Cell:
    """Eight streams under one combination of circumstances; the defaults are the plainest.

    Alone, the streams run one after the other, all with the cell's setting. With seven others, they run at once, the
    first with the cell's setting and the rest with the settings that follow it in turn: between them the cells of all
    settings hold every stream once. Alone on few blocks, an older stream runs beside and takes the blocks until it
    ends: a sequence that has the cache to itself is never preempted.
    """

    setup: Setup
    setting: str
    company: str = "alone"  # or "others"
    fate: str = "spared"  # or "killed": the server gets SIGKILL in mid stream and is started again
    predictions: str = "none"  # or how the source of predictions fares: one of SCRIPTED or of DRAFTED

    @property
    def name(self) -> str:
        """For file names, progress and test ids."""
        return f"{self.setup.name}-{self.setting}-{self.company}-{self.fate}-{self.predictions}"

    @property
    def circumstances(self) -> tuple[str, ...]:
        """The value on every axis, with the axis' name."""
        setup = (f"{field.name}={getattr(self.setup, field.name)}" for field in fields(Setup))
        own = (f"{field.name}={getattr(self, field.name)}" for field in fields(self)[1:])
        return (*setup, *own)


ALL_AXES = tuple(field.name for field in (*fields(Setup), *fields(Cell)[1:]))


def all_cells(isas: Sequence[str]) -> list[Cell]:
    """The whole matrix: both parts."""
    return [*scripted_cells(isas), *drafted_cells(isas)]


def scripted_cells(isas: Sequence[str]) -> list[Cell]:
    """The first part, the cells of one setup next to each other, each model's plainest setup first.

    Without predictions every combination there is. With predictions every setting alone and in company, on plenty of
    blocks after a whole prefill and on few after one in chunks: spared on one thread, and mixed ones killed on two.
    """
    setups = [
        Setup(model=model, isa=isa, prefill=prefill, threads=threads, blocks=blocks)
        for model, isa, prefill, threads, blocks in itertools.product(
            MODELS, isas, ("whole", "chunks"), (1, 2), ("plenty", "few")
        )
    ]
    cells = [
        Cell(setup=setup, setting=setting, company=company, fate=fate, predictions=predictions)
        for setup, company, setting, fate, predictions in itertools.product(
            setups, ("alone", "others"), SETTINGS, ("spared", "killed"), ("none", *SCRIPTED)
        )
    ]
    return [cell for cell in cells if _is_wanted(cell)]


def _is_wanted(cell: Cell) -> bool:
    if cell.predictions == "none":
        return True
    if (cell.setup.prefill == "whole") != (cell.setup.blocks == "plenty"):
        return False
    if cell.fate == "spared":
        return cell.setup.threads == 1
    return cell.predictions == "mixed" and cell.setup.threads == 2


def drafted_cells(isas: Sequence[str]) -> list[Cell]:
    """The second part, where a draft service predicts, the cells of one setup next to each other.

    With the best instruction set every setting alone and in company with every draft, the plain setup and the other one
    in turn, and with a good draft the target killed too; with the others a subset with the same pairs.
    """
    best, *others = ([cell for cell in _drafted_cells(isa) if _is_in_turn(cell)] for isa in isas)
    return [*best, *itertools.chain.from_iterable(map(covering_subset, others))]


def _drafted_cells(isa: str) -> Iterator[Cell]:
    for model, prefill in itertools.product(MODELS, ("whole", "chunks")):
        threads, blocks = (1, "plenty") if prefill == "whole" else (2, "few")
        setup = Setup(model=model, isa=isa, prefill=prefill, threads=threads, blocks=blocks, source="draft")
        for predictions, company, setting in itertools.product(DRAFTED, ("alone", "others"), SETTINGS):
            for fate in ("spared", "killed") if predictions == "good" else ("spared",):
                yield Cell(setup=setup, setting=setting, company=company, fate=fate, predictions=predictions)


def _is_in_turn(cell: Cell) -> bool:
    turn = SETTINGS.index(cell.setting) + DRAFTED.index(cell.predictions) + (cell.company == "others")
    return (turn % 2 == 0) == (cell.setup.prefill == "whole")


def covering_subset(cells: Sequence[Cell], *, axes: Container[str] = ALL_AXES) -> list[Cell]:
    """Few cells with every value that occurs in `cells`, and every pair of values on two of `axes`.

    Greedy, and repeatable.
    """
    pairs_of = {cell: _pairs(cell, axes) for cell in cells}
    missing = set().union(*pairs_of.values())
    candidates = random.Random(0).sample(cells, len(cells))
    chosen: list[Cell] = []
    while missing:
        best = max(candidates, key=lambda cell: len(pairs_of[cell] & missing))
        missing -= pairs_of[best]
        chosen.append(best)
    return sorted(chosen, key=cells.index)


def _pairs(cell: Cell, axes: Container[str]) -> set[tuple[str, ...]]:
    paired = [value for value in cell.circumstances if value.partition("=")[0] in axes]
    return {*itertools.combinations(paired, 2), *((value,) for value in cell.circumstances)}


def by_setup(cells: Iterable[Cell]) -> list[tuple[Setup, list[Cell]]]:
    """Neighbouring cells with the same setup, which can share a server."""
    return [(setup, list(group)) for setup, group in itertools.groupby(cells, key=lambda cell: cell.setup)]


def plainest(setup: Setup) -> Setup:
    """The setup of the reference runs that a setup is compared with."""
    return replace(setup, prefill="whole", threads=1, blocks="plenty", source="script")
