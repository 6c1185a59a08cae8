"""RunAhead: several draft steps for several sequences in one native call."""

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native import Batch, Decoder, Sampler, SamplingState


class Drafted(Protocol):
    """What is read of a sequence that is run ahead of."""

    tokens: list[int]
    num_computed: int
    blocks: list[int]

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
class Stretch:
    """Some pending tokens of a sequence to compute and, behind the last of them all, tokens to draw."""

    sequence: Drafted
    num_tokens: int
    num_draws: int


class RunAhead:
    """Computes stretches of several sequences and draws what follows each, all in one call of the decoder."""

    def __init__(
        self, decoder: Decoder, sampler: Sampler, *, max_rows: int, max_sequences: int, max_blocks: int
    ) -> None:
        self._decoder = decoder
        self._sampler = sampler
        self._batch = Batch(max_rows=max_rows, max_sequences=max_sequences, max_blocks=max_blocks)

    def extend(self, stretches: Items[Stretch]) -> list[list[int]]:
        """The tokens drawn for each stretch, at most its `num_draws`."""
        self._batch.clear()
        for stretch in stretches:
            sequence, start = stretch.sequence, stretch.sequence.num_computed
            token_ids = sequence.tokens[start : start + stretch.num_tokens]
            num_logits = int(stretch.num_draws > 0)
            self._batch.append(token_ids, position=start, blocks=sequence.blocks, num_logits=num_logits)
        drawing = [stretch for stretch in stretches if stretch.num_draws]
        drawn = iter(
            self._decoder.extend(
                self._batch,
                self._sampler,
                [stretch.sequence.sampling for stretch in drawing],
                [stretch.sequence.chain for stretch in drawing],
                [stretch.num_draws for stretch in drawing],
                [stretch.sequence.mask for stretch in drawing],
            )
        )
        return [next(drawn) if stretch.num_draws else [] for stretch in stretches]
