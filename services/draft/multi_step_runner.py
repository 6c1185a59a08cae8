"""MultiStepRunner: several draft steps for several sequences in one native call."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.draft.alternate import Alternate
from services.draft.drafted_sequence import DraftedSequence
from services.engine.decoder.native import Batch, Decoder, Sampler
from services.engine.head_shortlist import HeadShortlist
from services.engine.run import Run, fill


@dataclass(frozen=True, slots=True)
class ScheduledTokens:
    """The next pending tokens of a sequence to compute and, if these are all of them, the number of tokens to draw."""

    sequence: DraftedSequence | Alternate
    num_tokens: int
    num_draws: int
    least_chance: float = 0.0  # drawing stops once the probability that all draws are the target's falls below this

    @property
    def certain(self) -> int:
        """The position up to which the pass stores the state: before the last committed token, which may have to be
        computed again, since the next draw needs its row.
        """
        text = self.sequence.text
        num_committed = len(text.tokens) - len(self.sequence.chain)
        return min(max(0, num_committed - 1), text.num_computed + self.num_tokens)

    @property
    def run(self) -> Run:
        """The rows of the tokens to compute."""
        text = self.sequence.text
        return Run(
            text=text,
            token_ids=text.tokens[text.num_computed : text.num_computed + self.num_tokens],
            certain=self.certain,
            num_logits=int(self.num_draws > 0),
            adapter=self.sequence.adapter,
        )

    def settle(self, num_drawn: int) -> None:
        """Count the rows as computed, and those of all drawn tokens but the last, which its text has by now."""
        end = self.sequence.text.num_computed + self.num_tokens + max(num_drawn - 1, 0)
        self.sequence.text.settle(self.certain, end - self.certain)


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
        runs = [scheduled.run for scheduled in batch]
        fill(self._batch, runs)
        drawing = [scheduled for scheduled in batch if scheduled.num_draws]
        masks = [scheduled.sequence.mask for scheduled in drawing]
        if self._shortlist is not None:
            _prepare(self._shortlist, runs, masks)
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


def _prepare(shortlist: HeadShortlist, runs: Seq[Run], masks: Seq[NDArray[np.uint32] | None]) -> None:
    shortlist.note((run.token_ids, run.text.cache_scope) for run in runs)
    shortlist.allow(masks)
