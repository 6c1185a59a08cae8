"""A scheduler, sequences for it, and passes in which each row that draws gets a token."""

from services.engine.cache.block_manager import BlockManager
from services.target.scheduling.limits import SchedulerConfig
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.sequence import Sequence
from tests.unit.sequences import draw, make_request, make_sequence

BLOCK_SIZE = 4


def make_scheduler(
    *, max_rows: int = 32, prefill_chunk: int = 16, max_sequences: int = 4, num_blocks: int = 64
) -> Scheduler:
    config = SchedulerConfig(max_rows=max_rows, prefill_chunk=prefill_chunk, max_sequences=max_sequences)
    blocks = BlockManager(num_blocks=num_blocks, block_size=BLOCK_SIZE, copy_block=lambda source, target: None)
    return Scheduler(config, blocks)


def add(scheduler: Scheduler, *prompt_lengths: int, capacity: int = 1 << 20) -> list[Sequence]:
    """Add sequences with prompts of these lengths, in the order of their arrival."""
    added = [make_sequence(make_request(b"x" * length), capacity=capacity) for length in prompt_lengths]
    for sequence in added:
        scheduler.add(sequence)
    return added


def step(scheduler: Scheduler) -> list[ScheduledRows]:
    """One pass, in which each row that draws gets a token."""
    batch = scheduler.schedule()
    for rows in batch:
        scheduler.settle(rows, draw(rows.sequence, b"y") if rows.draws else 0)
    return batch


def shape(batch: list[ScheduledRows]) -> list[tuple[Sequence, int]]:
    return [(rows.sequence, rows.num_rows) for rows in batch]
