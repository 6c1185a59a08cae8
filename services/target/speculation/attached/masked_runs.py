"""Masked runs: predictions of a drafter, drawn one after another, where each token decides which may follow it."""

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native import Batch, Decoder, Sampler
from services.target.sequence.draw_state import MasksAhead
from services.target.sequence.sequence import Sequence

Mask = NDArray[np.uint32]  # [1, words]


@dataclass(slots=True)
class MaskedRun:
    """The predictions for one sequence, at most `limit`."""

    sequence: Sequence
    position: int  # of the row of the first prediction, as the drafter counts
    blocks: Seq[int]
    limit: int
    mask: Mask | None  # of the next draw
    ahead: MasksAhead
    drawn: list[int] = field(default_factory=list)
    is_over: bool = False

    def take(self, token_ids: Seq[int]) -> None:
        """Take what was drawn; the run is over without a token, or if none may follow."""
        self.is_over = self.is_over or not token_ids
        if not self.is_over:
            self.drawn += token_ids
            self.mask = self.ahead.after(token_ids[0])
            self.is_over = self.mask is not None and not self.mask.any()


def draw_masked(
    decoder: Decoder,
    batch: Batch,
    sampler: Sampler,
    runs: Seq[MaskedRun],
    allow: Callable[[Iterable[MaskedRun]], None],
    *,
    stays: bool = False,
) -> int:
    """Draw the runs' predictions, and return the number of passes.

    The batch has the rows that the drafter reads, with one requested row for each run, in this order; no run's limit is
    above that of one before it. `allow` is called with the runs before each pass. A run that is over stays in the batch
    as long as one after it draws, since the drafter keeps the hidden vectors in the order of the rows. With `stays` all
    rows of a run are at one position.
    """
    step = 0
    while True:
        step += 1
        allow(runs)
        states = [run.sequence.draw.sampling for run in runs]
        drawn = decoder.extend(
            batch, sampler, states, [run.drawn for run in runs], [1] * len(runs), [run.mask for run in runs]
        )
        for run, token_ids in zip(runs, drawn, strict=True):
            run.take(token_ids)
        num_left = max((place for place, run in enumerate(runs, 1) if run.limit > step and not run.is_over), default=0)
        if not num_left:
            return step
        runs = runs[:num_left]
        batch.clear()
        for run in runs:
            last = run.drawn[-1:] or [0]
            position = run.position if stays else run.position + step - 1
            batch.append(last, position=position, blocks=run.blocks, num_logits=1)
