"""MultiStepRunner: several draft steps for several sequences in one native call."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.draft.head_shortlist import HeadShortlist
from services.engine.decoder.native import Batch, Decoder, Sampler, SamplingState
from services.engine.lora.adapter import NO_ADAPTER, Adapter
from services.engine.request import ANYBODY


class Drafted(Protocol):
    """What is read of a sequence that is run ahead of."""

    tokens: list[int]
    num_computed: int
    blocks: list[int]
    adapter: Adapter | None

    @property
    def cache_scope(self) -> str | None:
        """Who may find its blocks, as `CachePolicy.scope`."""

    @property
    def sampling(self) -> SamplingState:
        """How its tokens are drawn, with the committed ones as history."""

    @property
    def mask(self) -> NDArray[np.uint32] | None:
        """What may be drawn next, [1, words], one bit per token; then no more than one is. None for all."""

    @property
    def chain(self) -> list[int]:
        """Its tokens behind the committed ones."""


@dataclass(frozen=True, slots=True)
class ScheduledTokens:
    """Some pending tokens of a sequence to compute and, behind the last of them all, tokens to draw."""

    sequence: Drafted
    num_tokens: int
    num_draws: int
    least_chance: float = 0.0  # of all to be what the target draws: behind the one with which it falls below, none


class MultiStepRunner:
    """Computes tokens of several sequences and draws what follows each, all in one call of the decoder."""

    def __init__(
        self,
        decoder: Decoder,
        sampler: Sampler,
        *,
        max_rows: int,
        max_sequences: int,
        max_blocks: int,
        shortlist: HeadShortlist | None = None,
    ) -> None:
        """`shortlist` is that of the decoder's head, if it has one."""
        self._decoder = decoder
        self._sampler = sampler
        self._shortlist = shortlist
        self._batch = Batch(max_rows=max_rows, max_sequences=max_sequences, max_blocks=max_blocks)

    def extend(self, batch: Seq[ScheduledTokens]) -> list[list[int]]:
        """The tokens drawn for each sequence, at most its `num_draws`."""
        self._batch.clear()
        for scheduled in batch:
            sequence, start = scheduled.sequence, scheduled.sequence.num_computed
            token_ids = sequence.tokens[start : start + scheduled.num_tokens]
            num_logits = int(scheduled.num_draws > 0)
            adapter = sequence.adapter.number if sequence.adapter else NO_ADAPTER
            self._batch.append(
                token_ids, position=start, blocks=sequence.blocks, num_logits=num_logits, adapter=adapter
            )
        drawing = [scheduled for scheduled in batch if scheduled.num_draws]
        masks = [scheduled.sequence.mask for scheduled in drawing]
        if self._shortlist is not None:
            _prepare(self._shortlist, batch, masks)
        drawn = iter(
            self._decoder.extend(
                self._batch,
                self._sampler,
                [scheduled.sequence.sampling for scheduled in drawing],
                [scheduled.sequence.chain for scheduled in drawing],
                [scheduled.num_draws for scheduled in drawing],
                masks,
                [scheduled.least_chance for scheduled in drawing],
            )
        )
        return [next(drawn) if scheduled.num_draws else [] for scheduled in batch]


def _prepare(shortlist: HeadShortlist, batch: Seq[ScheduledTokens], masks: Seq[NDArray[np.uint32] | None]) -> None:
    """Others may see by what is predicted what is on a list: of tokens only those go there that anybody may find in the
    prefix cache.
    """
    for scheduled in batch:
        sequence, start = scheduled.sequence, scheduled.sequence.num_computed
        if sequence.cache_scope == ANYBODY:
            shortlist.read(sequence.tokens[start : start + scheduled.num_tokens])
    for mask in masks:
        if mask is not None:
            shortlist.allow(mask)
