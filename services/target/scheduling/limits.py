"""Limits of a pass, and the limit that kept a pass from more work."""

import math
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Limits of one pass. `max_rows` is at least `max_sequences`, so that every sequence can decode in each pass; a
    guided sequence counts as two. Rows of prompts may make a pass over decoding sequences `prompt_slowdown` times as
    long.
    """

    max_rows: int
    prefill_chunk: int
    max_sequences: int
    prompt_slowdown: float = math.inf


class StepLimit(StrEnum):
    """The limit that kept a pass from more work."""

    ROWS = "rows"  # the pass is full
    SEQUENCES = "sequences"  # as many sequences run as may, and others wait
    BLOCKS = "blocks"  # sequences wait for KV blocks
    PREFILL_CHUNK = "prefill_chunk"  # a prompt has more tokens than one chunk
    PROMPT_ROWS = "prompt_rows"  # prompts got less than a chunk, because of decoding sequences or the size of logits
    WORK = "work"  # there was no more work
