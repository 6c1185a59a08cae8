"""Prompts leave decoding sequences a steady pace, and get whole passes where none decodes."""

import math

import pytest

from services.engine.cache.block_manager import BlockManager
from services.engine.config import ConfigError
from services.target.scheduling.limits import SchedulerConfig, StepLimit
from services.target.scheduling.prompt_pace import PromptPace
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.sequence import Sequence
from tests.unit.engine.test_config import make_config
from tests.unit.scheduling import BLOCK_SIZE, add, step

PLAIN, PER_ROW = 0.1, 0.01  # seconds of a pass that decodes, and of each row of a prompt in it


class TimedScheduler:
    """A scheduler that is given the times of its passes on a machine of constant speed."""

    def __init__(self, slowdown: float) -> None:
        config = SchedulerConfig(max_rows=256, prefill_chunk=256, max_sequences=8, prompt_slowdown=slowdown)
        blocks = BlockManager(num_blocks=512, block_size=BLOCK_SIZE, copy_block=lambda source, target: None)
        self.scheduler = Scheduler(config, blocks)

    def add(self, *lengths: int) -> list[Sequence]:
        return add(self.scheduler, *lengths)

    def step(self) -> float:
        """One pass, and its seconds."""
        batch = step(self.scheduler)
        seconds = PLAIN + PER_ROW * num_prompt_rows(batch)
        self.scheduler.observe(batch, seconds)
        return seconds


def num_prompt_rows(batch: list[ScheduledRows]) -> int:
    return sum(rows.num_rows for rows in batch if not rows.is_decode)


async def test_a_prompt_slows_a_token_down_by_no_more_than_the_limit():
    timed = TimedScheduler(slowdown=3.0)
    timed.add(8, 8)
    for _ in range(10):
        timed.step()
    (late,) = timed.add(400)
    seconds = [timed.step() for _ in range(30)]
    assert late.num_pending == 1
    assert max(seconds) <= 3.0 * PLAIN * 1.2  # after the first passes a row seems dearer than it is
    assert max(seconds) > 2.0 * PLAIN  # and the prompt gets what there is


async def test_steps_are_counted_by_what_limits_them():
    timed = TimedScheduler(slowdown=3.0)
    timed.add(8, 8)
    for _ in range(10):
        timed.step()
    assert timed.scheduler.num_steps[StepLimit.WORK] == 10
    timed.add(400)
    for _ in range(5):
        timed.step()
    assert timed.scheduler.num_steps[StepLimit.PROMPT_ROWS] >= 4  # at first the time of a row is unknown
    assert timed.scheduler.num_steps[StepLimit.PREFILL_CHUNK] == 0


async def test_without_a_limit_a_prompt_gets_all_rows():
    timed = TimedScheduler(slowdown=math.inf)
    timed.add(8, 8)
    for _ in range(10):
        timed.step()
    timed.add(400)
    assert timed.step() == pytest.approx(PLAIN + 254 * PER_ROW)


async def test_prompts_get_all_rows_when_more_wait_than_decode():
    timed = TimedScheduler(slowdown=2.0)
    timed.add(8)
    for _ in range(10):
        timed.step()
    timed.add(300, 300)
    assert timed.step() > 20 * PLAIN


def test_before_passes_were_measured_there_is_no_limit():
    pace = PromptPace(2.0)
    assert pace.most_rows(4, 1) == math.inf
    pace.observe(4, 16, 0.5)  # it cannot know yet what of this the prompt has taken
    assert pace.most_rows(4, 1) == math.inf
    pace.observe(4, 0, 0.1)
    pace.observe(4, 16, 0.3)
    assert pace.most_rows(4, 1) == pytest.approx(0.1 / (0.2 / 16))
    assert pace.most_rows(0, 1) == math.inf


def test_a_prompt_advances_however_slow_its_rows_are():
    pace = PromptPace(1.01)
    pace.observe(1, 0, 0.1)
    pace.observe(1, 4, 100.0)
    assert pace.most_rows(1, 1) == 8


@pytest.mark.parametrize("value", [1.0, 0.0, -2.0, math.nan])
def test_a_slowdown_that_leaves_no_room_is_refused(value: float):
    with pytest.raises(ConfigError, match=r"^prompt_slowdown is \S+; it must be above 1, inf for no limit$"):
        make_config(prompt_slowdown=value)
