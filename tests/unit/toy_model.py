"""A model whose next token depends on every token before it, read from a paged cache as a real model reads it.

A block that two sequences share, a row computed twice or never, a prediction left in the history: each changes what it
says, and a block that is read after it was given back stops it.
"""

import zlib
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.engine.cache.block_manager import BlockManager
from services.engine.decoder.native import Device, Logits
from services.engine.decoder.native.testing import make_logits
from services.engine.events import Chunk, Event, Finished, FinishReason
from services.engine.request import Request
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.sequence.sequence import Sequence
from services.target.sequence.token_stream import TokenStream
from tests.unit.sequences import END, VOCAB_SIZE, make_output, records_of

DEVICE = Device.cpu("portable", 1)
_WORDS = [END, *"the quick brown fox, 東京 🚀 é jumps over the lazy dog; and then?".encode()]
_POISON = -1


class Answer(NamedTuple):
    """All that may not depend on what else is going on."""

    ids: list[int]
    text: str
    reason: FinishReason


def next_token(history: Seq[int]) -> int:
    """Return the token that follows a history."""
    return _WORDS[zlib.crc32(np.asarray(history, dtype=np.int32).tobytes()) % len(_WORDS)]


async def generate_alone(request: Request, *, context_length: int) -> Answer:
    """Return the answer to a request, drawn token by token with nothing else around."""
    output = make_output(request, context_length=context_length)
    sequence = output.sequence
    while not sequence.is_finished:
        masked = request.healing.masked_ids if request.healing and sequence.is_healing else ()
        token_id = next_token(sequence.tokens)
        # all others are alike to the model, and the lowest id wins
        best = token_id if token_id not in masked else next(i for i in range(VOCAB_SIZE) if i not in masked)
        output.commit(records_of([best]))
        output.write()
    assert isinstance(sequence.stream, TokenStream)
    return answer_of([event async for event in sequence.stream])


def answer_of(events: Iterable[Event]) -> Answer:
    """Return what a consumer makes of a whole stream of events."""
    *_, end = events = [*events]
    assert isinstance(end, Finished)
    chunks = [event for event in events if isinstance(event, Chunk)]
    ids = [record.token_id for chunk in chunks for record in chunk.records]
    return Answer(ids, "".join(chunk.text for chunk in chunks) + end.text, end.reason)


def next_token_alone(history: Seq[int]) -> NDArray[np.float32]:
    """Logits that are meant for greedy sampling.  # [VOCAB_SIZE]"""
    values = np.zeros(VOCAB_SIZE, dtype=np.float32)
    values[next_token(history)] = 1.0
    return values


@dataclass(frozen=True)
class ToyPass:
    """Takes the place of the results of a pass."""

    logits: Logits


class ToyModel:
    """Takes the place of the model runner."""

    def __init__(
        self,
        blocks: BlockManager,
        logits_of: Callable[[Seq[int]], NDArray[np.float32]] = next_token_alone,
        *,
        returns_early: bool = False,
    ) -> None:
        self.returns_early = returns_early
        self._logits_of = logits_of
        self._vocab_size = len(logits_of([]))
        self._blocks = blocks
        self._block_size = blocks.block_size
        self._cells = [_POISON] * (blocks.num_blocks * blocks.block_size)
        self.batch: list[ScheduledRows] = []  # the latest
        self.num_early = 0  # passes that were launched before the tokens before them were committed
        self._next: list[tuple[Sequence, int]] = []

    def forward(self, scheduled: Iterable[ScheduledRows]) -> ToyPass:
        """Write every row into the cache, then read what each asked row sees."""
        self.batch = [*scheduled]
        for rows in self.batch:
            self._write(rows)
        histories = [history for rows in self.batch for history in self._histories(rows)]
        values = [self._logits_of(history) for history in histories]
        return ToyPass(make_logits(DEVICE, np.asarray(values, dtype=np.float32).reshape(len(values), self._vocab_size)))

    @property
    def may_launch_next(self) -> bool:
        """Whether passes are launched before the tokens before them are committed."""
        return self.returns_early

    def prepare_next(self, scheduled: Iterable[ScheduledRows]) -> None:
        """Remember the rows, and where they will be in the cache."""
        self.batch = [*scheduled]
        self._next = [(rows.sequence, rows.position or 0) for rows in self.batch]

    def forward_next(self, token_ids: Seq[int]) -> ToyPass:
        """Write each token into its cell, then read what its row sees."""
        values = []
        for (sequence, last), token_id in zip(self._next, token_ids, strict=True):
            self._cells[self._cell(sequence, last)] = token_id
            history = [self._cells[self._cell(sequence, position)] for position in range(last + 1)]
            assert _POISON not in history, "a free block was read"
            values.append(self._logits_of(history))
        self.num_early += 1
        return ToyPass(make_logits(DEVICE, np.asarray(values, dtype=np.float32)))

    def pool(self, computed: ToyPass, scheduled: Iterable[ScheduledRows]) -> None:
        """It has no hidden states, and no test asks it for any."""
        assert all(rows.sequence.request.pooling is None for rows in scheduled)

    def copy_block(self, source: int, target: int) -> None:
        """Copy a block onto another."""
        size = self._block_size
        self._cells[target * size : (target + 1) * size] = self._cells[source * size : (source + 1) * size]

    def poison_empty_blocks(self) -> None:
        """Make whatever no sequence owns and the prefix cache cannot find unreadable."""
        size = self._block_size
        for block in self._blocks.empty:
            self._cells[block * size : (block + 1) * size] = [_POISON] * size

    def _write(self, rows: ScheduledRows) -> None:
        start = rows.sequence.text.num_computed
        tokens = rows.sequence.tokens[start : start + rows.num_tokens] + rows.predictions
        for position, token_id in enumerate(tokens, start):
            self._cells[self._cell(rows.sequence, position)] = token_id

    def _histories(self, rows: ScheduledRows) -> list[list[int]]:
        end = rows.sequence.text.num_computed + rows.num_rows
        cells = [self._cells[self._cell(rows.sequence, position)] for position in range(end)]
        assert _POISON not in cells, "a free block was read"
        return [cells[:length] for length in range(end - rows.num_logits + 1, end + 1)]

    def _cell(self, sequence: Sequence, position: int) -> int:
        return sequence.text.blocks[position // self._block_size] * self._block_size + position % self._block_size
