"""Limits of a pass: those that it keeps, and which of them kept it from more work."""

import math
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Limits of one pass, which the scheduler keeps, whoever adds rows; `max_rows` is at least `max_sequences`, so that
    every sequence can decode in each. There are no more rows of logits than rows. A guided sequence counts as two.
    Rows of prompts may make a pass over decoding sequences `prompt_slowdown` times as long.
    """

    max_rows: int
    prefill_chunk: int
    max_sequences: int
    prompt_slowdown: float = math.inf


class StepLimit(StrEnum):
    """What kept a pass from more work."""

    ROWS = "rows"  # as many as one pass may have
    SEQUENCES = "sequences"  # as many run as may, and others wait
    BLOCKS = "blocks"  # sequences wait for KV blocks
    PREFILL_CHUNK = "prefill_chunk"  # more of a prompt could be computed, but not at once
    PROMPT_ROWS = "prompt_rows"  # nor as much as a chunk, for those who decode or for the room that logits take
    WORK = "work"  # there was no more
