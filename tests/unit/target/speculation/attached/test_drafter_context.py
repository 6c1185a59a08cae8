"""DrafterContext: an unbroken run of rows, which begins anew where rows are missing."""

import pytest

from services.engine.cache.cached_tokens import CachedTokens
from services.engine.checkpoint.attached.drafter_fields import LONGEST_CONTEXT
from services.target.speculation.attached.drafter_context import DrafterContext


def make_text(num_tokens: int, *, num_computed: int | None = None, blocks: list[int] | None = None) -> CachedTokens:
    text = CachedTokens(range(num_tokens))
    text.num_computed = num_tokens - 1 if num_computed is None else num_computed
    text.blocks = [*range(50, 50 + num_tokens // 32 + 1)] if blocks is None else blocks
    return text


def test_a_text_is_read_from_its_beginning():
    context = DrafterContext.after(None, make_text(41), 0)
    assert context == DrafterContext(0, 40, first_block=50)
    assert context.length == 40


def test_rows_without_a_gap_go_on():
    context = DrafterContext.after(DrafterContext(0, 40, 50), make_text(44), 40)
    assert (context.start, context.end) == (0, 43)


def test_rows_that_were_rejected_are_read_again():
    context = DrafterContext.after(DrafterContext(0, 40, 50), make_text(41), 38)
    assert (context.start, context.end) == (0, 40)


@pytest.mark.parametrize("first", [41, 70])
def test_after_a_gap_it_begins_anew(first):
    context = DrafterContext.after(DrafterContext(0, 40, 50), make_text(100), first)
    assert context == DrafterContext(first, 99, first_block=50 + first // 32)


def test_tokens_that_were_taken_back_shorten_it():
    context = DrafterContext.after(DrafterContext(0, 40, 50), make_text(31), 40)
    assert (context.start, context.end) == (0, 30)


def test_other_blocks_begin_anew():
    text = make_text(44, blocks=[7, 8])
    assert DrafterContext.after(DrafterContext(0, 40, 50), text, 40) == DrafterContext(40, 43, first_block=8)


def test_rows_before_its_start_begin_anew():
    assert DrafterContext.after(DrafterContext(30, 40, 50), make_text(44), 20).start == 20


def test_only_the_last_part_of_a_long_prompt_is_read():
    text = make_text(LONGEST_CONTEXT + 100, num_computed=64)
    assert DrafterContext.after(None, text, 0) is None
    text.num_computed = 150
    assert DrafterContext.after(None, text, 64) == DrafterContext(128, 150, first_block=54), "from a block on"


def test_blocks_and_room_are_counted_from_its_start():
    text = make_text(80, blocks=[5, 6, 7])
    context = DrafterContext.after(None, text, 40)
    assert [*context.blocks(text)] == [6, 7]
    assert context.room(text) == 2 * 32 - 39 + 1
