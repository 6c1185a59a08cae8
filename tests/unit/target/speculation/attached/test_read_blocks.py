"""ReadBlocks: texts go on after blocks that were read, as long as these hold the same text."""

from services.engine.cache.cached_tokens import CachedTokens
from services.engine.decoder.native import BLOCK_SIZE
from services.target.speculation.attached.drafter_context import DrafterContext
from services.target.speculation.attached.read_blocks import ReadBlocks

SIZE = BLOCK_SIZE


def make_text(num_tokens: int, blocks: list[int], *, scope: str = "model", changed: int | None = None) -> CachedTokens:
    text = CachedTokens(range(num_tokens), cache_scope=scope)
    if changed is not None:
        text.tokens[changed] = 999
    text.blocks = blocks
    return text


def read(blocks: ReadBlocks, text: CachedTokens, start: int, end: int) -> None:
    blocks.note(DrafterContext(start, end, text.blocks[start // SIZE]), text, start)


def test_another_text_goes_on_after_the_blocks_that_were_read():
    blocks = ReadBlocks()
    read(blocks, make_text(100, [7, 8, 9, 10]), 0, 99)
    other = make_text(2 * SIZE + 5, [7, 8, 3])
    assert blocks.context(other, 2 * SIZE) == DrafterContext(0, 2 * SIZE, first_block=7)
    assert blocks.context(other, SIZE) == DrafterContext(0, SIZE, first_block=7)


def test_a_block_read_in_part_is_no_part_of_a_context():
    blocks = ReadBlocks()
    read(blocks, make_text(100, [7, 8, 9, 10]), 0, 2 * SIZE - 1)
    assert blocks.context(make_text(100, [7, 8]), 2 * SIZE) is None
    assert blocks.context(make_text(100, [7, 8]), SIZE) is not None


def test_rows_in_several_passes_fill_a_block():
    blocks, text = ReadBlocks(), make_text(100, [7, 8, 9, 10])
    context = DrafterContext(0, SIZE - 3, first_block=7)
    blocks.note(context, text, 0)
    assert blocks.context(text, SIZE) is None
    blocks.note(DrafterContext(0, SIZE + 2, first_block=7), text, SIZE - 3)
    assert blocks.context(text, SIZE) == DrafterContext(0, SIZE, first_block=7)


def test_a_context_from_a_later_block_on_goes_on_there():
    blocks = ReadBlocks()
    read(blocks, make_text(4 * SIZE, [7, 8, 9, 10]), SIZE, 3 * SIZE)
    assert blocks.context(make_text(100, [7, 8, 9]), 3 * SIZE) == DrafterContext(SIZE, 3 * SIZE, first_block=8)
    assert blocks.context(make_text(100, [7, 8, 9]), SIZE) is None


def test_rows_that_began_inside_a_block_are_of_no_use_to_others():
    blocks, text = ReadBlocks(), make_text(100, [7, 8, 9, 10])
    read(blocks, text, 0, 2 * SIZE)
    read(blocks, text, 5, 2 * SIZE)
    assert blocks.context(text, SIZE) is None
    assert blocks.context(text, 2 * SIZE) is None


def test_blocks_that_hold_another_text_by_now_are_not_taken():
    blocks = ReadBlocks()
    read(blocks, make_text(100, [7, 8, 9, 10]), 0, 99)
    assert blocks.context(make_text(100, [7, 8], changed=SIZE + 1), 2 * SIZE) is None
    assert blocks.context(make_text(100, [7, 8], changed=1), 2 * SIZE) is None
    assert blocks.context(make_text(100, [7, 8], scope="another"), 2 * SIZE) is None
    assert blocks.context(make_text(100, [5, 8]), 2 * SIZE) is None
    assert blocks.context(make_text(100, [8, 7]), 2 * SIZE) is None


def test_rows_inside_a_block_have_no_context():
    blocks = ReadBlocks()
    read(blocks, make_text(100, [7, 8, 9, 10]), 0, 99)
    assert blocks.context(make_text(100, [7, 8]), SIZE + 1) is None
    assert blocks.context(make_text(100, [7, 8]), 0) is None


def test_a_text_that_has_lost_its_blocks_has_no_context():
    blocks = ReadBlocks()
    read(blocks, make_text(100, [7, 8, 9, 10]), 0, 99)
    assert blocks.context(make_text(100, []), SIZE) is None
