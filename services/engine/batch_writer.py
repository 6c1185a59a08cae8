"""BatchWriter: lays the rows of a pass out in one reused native batch."""

import numpy as np

from services.engine.native import Batch


class BatchWriter:
    """Appends one sequence's rows after another's; `batch` is what the decoder reads."""

    def __init__(self, *, max_rows: int, max_sequences: int, max_blocks: int) -> None:
        self.batch = Batch(max_rows=max_rows, max_sequences=max_sequences, max_blocks=max_blocks)

    def clear(self) -> None:
        """Begin a new pass."""
        self.batch.num_rows = self.batch.num_sequences = self.batch.num_logits = 0

    def append(self, token_ids: list[int], *, position: int, blocks: list[int], num_asked: int) -> None:
        """Add a run of tokens that begins at `position`; the logits of its last `num_asked` rows are asked."""
        batch = self.batch
        first, end = batch.num_rows, batch.num_rows + len(token_ids)
        batch.token_ids[first:end] = token_ids
        batch.positions[first:end] = np.arange(position, position + len(token_ids))
        batch.sequences[first:end] = batch.num_sequences
        batch.block_tables[batch.num_sequences, : len(blocks)] = blocks
        batch.logit_rows[batch.num_logits : batch.num_logits + num_asked] = np.arange(end - num_asked, end)
        batch.num_rows = end
        batch.num_sequences += 1
        batch.num_logits += num_asked
