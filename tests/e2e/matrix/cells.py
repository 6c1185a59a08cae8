"""Cell: one way to run a model that must not change a byte; all cells, and a subset that covers every pair."""

import itertools
import random
from collections.abc import Container, Hashable, Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, fields, replace

MODELS = ("demo", "llama", "qwen3", "gemma2")
HELD = ("gptq", "awq", "packed", "mxfp4")  # as other tools have quantised them
QUANTISED = (*HELD, "float8")
MIXTURES = ("olmoe", "qwen3_moe", "mixtral", "qwen2_moe", "lfm2_moe", "glm4_moe", "glm4_moe_lite", "deepseek_v2")
WITH_STATES = ("qwen3_5", "qwen3_5_pictures", "qwen3_5_moe", "qwen3_next")  # as drafts they do not translate
FURTHER = (
    *("llama_biased", "ministral", "ministral3", "smollm3", "granite", "olmo3", "glm", "glm4", "phi4_mini"),
    *("stablelm", "stablelm_parallel", "starcoder2", "cohere", "cohere_plus", "cohere2", "lfm2"),
    *MIXTURES,
    "gpt_oss",
    *("gemma4", "gemma4_moe", "gemma4_small", "gemma3_pictures", "mistral3_pictures", *WITH_STATES, *QUANTISED),
)
OFTEN_DRAFTED = (*MIXTURES, "lfm2", "qwen3_5", "gemma4_small")
"""By drafts whose layers are as theirs are: of experts, with states, or with inputs of their own."""
ATTACHED = {
    **{"random head": MODELS, "trained head": ("demo",), "constructed head": ("one_step",)},
    **{"random layer": ("mtp",), "constructed layer": ("mtp_one_step",)},
    **{"random blocks": ("llama", "qwen3", "gemma2"), "constructed blocks": ("ring",)},
    **{"random assistant": ("gemma4_small", "gemma4_moe"), "constructed assistant": ("gemma4_one_step",)},
}
"""The attached drafters, heads, layers of the model's own, heads for blocks, and assistants, and the models that have
each.
"""
CONSTRUCTED = ("one_step", "mtp", "mtp_one_step", "ring", "gemma4_one_step")  # for attached drafters only
PUBLISHED = ("pair", "small")  # models of tests/real: large, and not always to be had
ALL_MODELS = (*MODELS, *PUBLISHED, *FURTHER, *CONSTRUCTED)
SETTINGS = ("greedy", "nucleus", "truncated", "penalised", "stopped", "grammar", "banned", "samples", "healed")
SCRIPTED = ("right", "wrong", "mixed")
DRAFTED = ("absent", "garbage", "delayed", "random", "good", "paused", "killed", "reworded")
WEIGHTS, KV = ("bf16", "int8", "int4"), ("bf16", "int8")
HEADS = ("whole", "short")
_FEW_CANDIDATES = 200
_OWN_COMPUTATION = frozenset({"penalised"})  # settings that get records of the prompt, and so take nothing from a cache
_CANDIDATES = 1000  # candidates for the cells that cover all pairs, where all there are would be too many


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Setup:
    """The settings of a server process."""

    model: str
    isa: str  # or any other of processors()
    prefill: str = "whole"  # or "chunks", of 16 tokens
    threads: int = 1
    blocks: str = "plenty"  # or "few": so few that sequences are preempted
    source: str = "script"  # of predictions; or "draft": a service of its own; or one of ATTACHED
    weights: str = "bf16"
    kv: str = "bf16"
    fronts: int = 0

    @property
    def name(self) -> str:
        """For file names and progress."""
        return "-".join(str(getattr(self, field.name)).replace(" ", "_") for field in fields(self))

    @property
    def of_bytes(self) -> tuple[str, str, str, str]:
        """What bytes may depend on."""
        return (self.model, self.isa, self.weights, self.kv)


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Cell:
    """Nine streams under one combination of circumstances; the defaults are the plainest.

    Alone, the streams run one after the other, all with the cell's setting. With eight others, they run at once, the
    first with the cell's setting and the rest with the settings that follow it in turn: between them the cells of all
    settings hold every stream once. Alone on few blocks, an older stream runs beside and takes the blocks until it
    ends: a sequence that has the cache to itself is never preempted.
    """

    setup: Setup
    setting: str
    company: str = "alone"  # or "others"
    fate: str = "spared"  # or "killed": the server gets SIGKILL in mid stream and is started again
    predictions: str = "none"  # or how the source of predictions fares: one of SCRIPTED or DRAFTED, or "attached"
    cache: str = "cold"  # or "warm": others with the same prompts have been there before
    draft_weights: str = "auto"
    draft_kv: str = "bf16"
    draft_head: str = "whole"  # or "short": a shortlist of few tokens

    @property
    def name(self) -> str:
        """For file names, progress and test ids."""
        return "-".join((self.setup.name, *(str(getattr(self, name)) for name in _OWN_AXES)))

    @property
    def references(self) -> tuple[str, ...]:
        """Cells with the same are compared with the same streams."""
        return (*self.setup.of_bytes, self.setting, self.company)

    @property
    def circumstances(self) -> tuple[str, ...]:
        """The value on every axis, with the axis' name."""
        setup = (f"{field.name}={getattr(self.setup, field.name)}" for field in fields(Setup))
        own = (f"{name}={getattr(self, name)}" for name in _OWN_AXES)
        return (*setup, *own)


_OWN_AXES = tuple(field.name for field in fields(Cell)[1:])
ALL_AXES = (*(field.name for field in fields(Setup)), *_OWN_AXES)


def all_cells(isas: Seq[str]) -> list[Cell]:
    """The whole matrix: all parts."""
    parts = (scripted_cells(isas), drafted_cells(isas), varied_cells(isas), further_cells(isas), attached_cells(isas))
    return list(dict.fromkeys(itertools.chain.from_iterable(parts)))


def scripted_cells(isas: Seq[str]) -> list[Cell]:
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


def drafted_cells(isas: Seq[str]) -> list[Cell]:
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


def varied_cells(isas: Seq[str]) -> list[Cell]:
    """The third part: other formats of the target and of its draft, and warm caches.

    For each model and instruction set, with scripts and with a draft, a subset that covers every pair.
    """
    parts = itertools.product(MODELS, isas, ("script", "draft"))
    cells = itertools.chain.from_iterable(covering_subset(varied_candidates(*part, _CANDIDATES)) for part in parts)
    return sorted(cells, key=lambda cell: cell.setup)


def further_cells(isas: Seq[str]) -> list[Cell]:
    """The fourth part: architectures and quantised weights whose kernels are those of the models before.

    For each, on the best instruction set and with scripts, a subset that covers every pair; for some with a draft as
    well.
    """
    parts = [*itertools.product(FURTHER, ("script",)), *itertools.product(OFTEN_DRAFTED, ("draft",))]
    cells = (covering_subset(varied_candidates(model, isas[0], source, _FEW_CANDIDATES)) for model, source in parts)
    return sorted(itertools.chain.from_iterable(cells), key=lambda cell: cell.setup)


def attached_cells(isas: Seq[str]) -> list[Cell]:
    """The fifth part, where a drafter that is attached to the target predicts: for each and each of its models, on the
    best instruction set, a subset that covers every pair.
    """
    parts = [(model, source) for source, models in ATTACHED.items() for model in models]
    cells = (covering_subset(varied_candidates(model, isas[0], source, _FEW_CANDIDATES)) for model, source in parts)
    return sorted(itertools.chain.from_iterable(cells), key=lambda cell: cell.setup)


def _formats_of(model: str) -> tuple[str, ...]:
    """The formats of weights that a model can be held in."""
    return ("stored", *WEIGHTS) if model in HELD else WEIGHTS


def varied_candidates(model: str, isa: str, source: str, count: int) -> list[Cell]:
    """So many of all combinations there are for one model, instruction set and source of predictions, at random."""
    rng = random.Random(f"{model} {isa} {source}")
    heads = random.Random(f"{model} {isa} {source} draft head")
    without_draft = ("none", "attached") if source in ATTACHED else ("none", *SCRIPTED)
    kinds, draft_weights, draft_kv, draft_heads = (
        (DRAFTED, WEIGHTS, KV, HEADS) if source == "draft" else (without_draft, ("auto",), ("bf16",), ("whole",))
    )
    cells: set[Cell] = set()
    while len(cells) < count:
        setup = Setup(
            model=model,
            isa=isa,
            prefill=rng.choice(("whole", "chunks")),
            threads=rng.choice((1, 2)),
            blocks=rng.choice(("plenty", "few")),
            source=source,
            weights=rng.choice(_formats_of(model)),
            kv=rng.choice(KV),
        )
        cell = Cell(
            setup=setup,
            setting=rng.choice(SETTINGS),
            company=rng.choice(("alone", "others")),
            fate=rng.choice(("spared", "killed")),
            predictions=rng.choice(kinds),
            cache=rng.choice(("cold", "warm")),
            draft_weights=rng.choice(draft_weights),
            draft_kv=rng.choice(draft_kv),
            draft_head=heads.choice(draft_heads),
        )
        if _is_possible(cell):
            cells.add(cell)
    return sorted(cells)


def _is_possible(cell: Cell) -> bool:
    if cell.fate == "killed" and cell.predictions in DRAFTED and cell.predictions not in {"good", "reworded"}:
        return False
    if cell.predictions == "reworded" and cell.setup.model in WITH_STATES:
        return False
    return cell.cache == "cold" or cell.company == "others" or cell.setting not in _OWN_COMPUTATION


def covering_subset(cells: Seq[Cell], *, axes: Container[str] = ALL_AXES, in_pairs: bool = True) -> list[Cell]:
    """Few cells with every value that occurs in `cells` on one of `axes`, and every pair of values on two of them.

    Without `in_pairs` only every value occurs.

    Greedy, and repeatable; of those that add as many pairs, one that takes the fewest further servers and references.
    """
    bits: dict[tuple[str, ...], int] = {}
    parts = {cell: _pairs(cell, axes) if in_pairs else _values(cell, axes) for cell in cells}
    pairs_of = {cell: sum(1 << bits.setdefault(part, len(bits)) for part in parts[cell]) for cell in cells}
    missing = (1 << len(bits)) - 1
    candidates = random.Random(0).sample(cells, len(cells))
    chosen: list[Cell] = []
    known: set[Hashable] = set()
    while missing:
        best = max(candidates, key=lambda cell: ((pairs_of[cell] & missing).bit_count(), -_cost(cell, known)))
        missing &= ~pairs_of[best]
        known |= {best.setup, best.references}
        chosen.append(best)
    return sorted(chosen, key=cells.index)


def _cost(cell: Cell, known: Container[Hashable]) -> int:
    """How many servers a cell starts, about: to draw its references takes as long as a start."""
    return (cell.setup not in known) + (cell.references not in known) + 2 * (cell.fate == "killed")


def sampled_cells(cells: Seq[Cell], count: int, seed: int) -> list[Cell]:
    """So many cells at random, as many of each setting as there are, in their order; half of them have two fronts."""
    rng = random.Random(seed)
    shuffled = rng.sample(range(len(cells)), len(cells))
    by_setting = [[index for index in shuffled if cells[index].setting == setting] for setting in SETTINGS]
    in_turn = [index for turn in itertools.zip_longest(*by_setting) for index in turn if index is not None]
    chosen = [cells[index] for index in sorted(in_turn[:count])]
    return [replace(cell, setup=replace(cell.setup, fronts=2 * (turn % 2))) for turn, cell in enumerate(chosen)]


def _values(cell: Cell, axes: Container[str]) -> set[tuple[str, ...]]:
    return {(value,) for axis, value in zip(ALL_AXES, cell.circumstances, strict=True) if axis in axes}


def _pairs(cell: Cell, axes: Container[str]) -> set[tuple[str, ...]]:
    paired = [value for axis, value in zip(ALL_AXES, cell.circumstances, strict=True) if axis in axes]
    return {*itertools.combinations(paired, 2), *_values(cell, ALL_AXES)}


def by_setup(cells: Iterable[Cell]) -> list[tuple[Setup, list[Cell]]]:
    """The cells of each setup, which can share a server."""
    groups: dict[Setup, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.setup, []).append(cell)
    return [*groups.items()]


def plainest(setup: Setup) -> Setup:
    """The setup of the reference runs that a setup is compared with."""
    return replace(setup, prefill="whole", threads=1, blocks="plenty", source="script", fronts=0)
