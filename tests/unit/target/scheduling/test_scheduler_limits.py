"""Scheduler: whatever is submitted and predicted, its passes keep their limits, and every sequence ends."""

import asyncio
from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.cache.block_manager import BlockManager
from services.target.scheduling.limits import SchedulerConfig
from services.target.scheduling.scheduler import Scheduler
from tests.unit.crowded_target import BLOCK_SIZE, check_limits
from tests.unit.sequences import make_output, make_request, records_of


@settings(max_examples=20, derandomize=True, database=None)
@given(
    max_sequences=st.integers(1, 8),
    spare_rows=st.integers(0, 12),
    prefill_chunk=st.integers(1, 20),
    num_blocks=st.integers(6, 40),
    prompts=st.lists(st.integers(1, 20), min_size=1, max_size=10),
    seed=st.integers(0, 2**32),
)
def test_any_predictions_keep_the_schedulers_limits(
    max_sequences, spare_rows, prefill_chunk, num_blocks, prompts, seed
):
    async def drive(draw: Callable[[int], int]) -> None:
        limits = SchedulerConfig(
            max_rows=max_sequences + spare_rows, prefill_chunk=prefill_chunk, max_sequences=max_sequences
        )
        blocks = BlockManager(num_blocks=num_blocks, block_size=BLOCK_SIZE, copy_block=lambda source, to: None)
        scheduler = Scheduler(limits, blocks)
        outputs = [
            make_output(make_request(bytes([index]) * length, stop_ids=[], max_tokens=draw(20) + 1), context_length=24)
            for index, length in enumerate(prompts)
        ]
        output_of = {output.sequence: output for output in outputs}
        for sequence in output_of:
            scheduler.add(sequence)
        while batch := scheduler.schedule():
            for rows in batch:
                if rows.is_decode:
                    scheduler.add_predictions(rows, [*bytes(draw(2 * limits.max_rows))])
            check_limits(batch, limits, num_blocks)
            assert scheduler.spare_rows == limits.max_rows - sum(rows.num_rows for rows in batch) >= 0
            for rows in batch:
                drawn = records_of(bytes(draw(len(rows.predictions)) + 1)) if rows.draws else []
                scheduler.settle(rows, output_of[rows.sequence].commit(drawn) if drawn else 0)
                if rows.sequence.is_finished:
                    scheduler.remove(rows.sequence)
            blocks.check_integrity(sequence.text for sequence in scheduler.sequences)
        assert all(sequence.is_finished for sequence in output_of)
        assert blocks.num_free == num_blocks

    random = Random(seed)
    asyncio.run(drive(lambda most: random.randint(0, most)))
