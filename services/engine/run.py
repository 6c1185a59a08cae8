"""Run: the rows of one text in a pass."""

from collections.abc import Iterable
from dataclasses import dataclass

from services.engine.cache.cached_tokens import CachedTokens
from services.engine.decoder.native import Batch
from services.engine.lora.adapter import NO_ADAPTER, Adapter


@dataclass(slots=True, kw_only=True)
class Run:
    """Consecutive rows of a text, which begin `ahead` tokens after those that are computed."""

    text: CachedTokens
    token_ids: list[int]  # of each row
    certain: int  # position before which no verdict can reject a token
    num_logits: int = 0  # of the last rows
    adapter: Adapter | None = None
    ahead: int = 0


def fill(batch: Batch, runs: Iterable[Run]) -> None:
    """Replace the rows of a batch by those of `runs`, in this order."""
    batch.clear()
    for run in runs:
        batch.append(
            run.token_ids,
            position=run.text.num_computed + run.ahead,
            blocks=run.text.blocks,
            num_logits=run.num_logits,
            adapter=run.adapter.number if run.adapter else NO_ADAPTER,
            slot=run.text.slot,
            state_position=run.text.state_position,
            certain=run.certain,
            kept=run.text.kept and run.text.kept[:2],
        )
