"""EngineFigures: what an engine has counted so far, and its state, for metrics and administrators."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from services.engine.cache.kv_offload import KvOffload
from services.engine.events import NoSpeculation, PredictionSource, SpeculationSeconds, SpeculationStats
from services.target.speculation.policy.speculation_plan import Decision


class EngineLoad(NamedTuple):
    """Sequences that take part in passes, and that wait for their turn, and KV blocks that sequences own."""

    running: int = 0
    waiting: int = 0
    used_blocks: int = 0


class SequenceFigures(NamedTuple):
    """How far a sequence is, in tokens, and the KV blocks that it owns."""

    num_computed: int
    num_generated: int
    num_blocks: int
    is_running: bool


@dataclass(frozen=True, slots=True)
class OffloadFigures:
    """KV blocks, and bytes, of an offload; all 0 without one."""

    held_bytes: int = 0
    most_bytes: int = 0
    stored: int = 0
    found: int = 0
    missed: int = 0
    dropped: int = 0
    has_failed: bool = False

    @classmethod
    def of(cls, offload: KvOffload | None) -> "OffloadFigures":
        """The figures of an offload now."""
        if offload is None:
            return cls()
        store = offload.store
        return cls(
            held_bytes=store.num_pages * store.page_bytes,
            most_bytes=store.num_slots * store.page_bytes,
            stored=offload.num_stored,
            found=offload.num_found,
            missed=offload.num_missed,
            dropped=store.num_dropped,
            has_failed=bool(store.problem),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFigures:
    """Counts are of all passes so far, and of all requests."""

    num_tokens: int  # that were generated
    num_preemptions: int
    steps: Mapping[str, int]  # by the limit that kept them from more work
    rows: Mapping[str, int]  # by kind
    step_seconds: Mapping[str, float]  # by part
    blocks: Mapping[str, int]  # by state
    findable_blocks: int
    stateless_tokens: int  # found in the prefix cache in vain: no state was kept after them
    offload: OffloadFigures
    speculation: SpeculationStats
    unpredicted: Mapping[NoSpeculation, int]
    decisions: Counter[tuple[PredictionSource, Decision]]
    speculation_seconds: SpeculationSeconds
