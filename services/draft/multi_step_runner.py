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
    """The part of a sequence that the runner reads."""

    tokens: list[int]
    num_computed: int
    blocks: list[int]
    adapter: Adapter | None

    @property
    def cache_scope(self) -> str | None:
        """The scope of its blocks in the prefix cache, as `CachePolicy.scope`."""

    @property
    def sampling(self) -> SamplingState:
        """How its tokens are drawn, with the committed ones as history."""

    @property
    def mask(self) -> NDArray[np.uint32] | None:
        """The allowed next tokens, [1, words], one bit per token; None for all. With a mask only one token is drawn."""

    @property
    def chain(self) -> list[int]:
        """Its tokens after the committed ones."""


@dataclass(frozen=True, slots=True)
class ScheduledTokens:
    """The next pending tokens of a sequence to compute and, if these are all of them, the number of tokens to draw."""

    sequence: Drafted
    num_tokens: int
    num_draws: int
    least_chance: float = 0.0  # drawing stops once the probability that all draws are the target's falls below this


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
        """`shortlist` is the one of the decoder's head, if it has one."""
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
    """Put the batch's tokens and masks onto the shortlist.

    Predictions reveal to other callers which tokens are on the list, so that only tokens whose cache scope is open to
    anybody are put there.
    """
    for scheduled in batch:
        sequence, start = scheduled.sequence, scheduled.sequence.num_computed
        if sequence.cache_scope == ANYBODY:
            shortlist.read(sequence.tokens[start : start + scheduled.num_tokens])
    for mask in masks:
        if mask is not None:
            shortlist.allow(mask)
