"""KV blocks copied to the host and into another block read as the block that they were computed in."""

import numpy as np
import pytest

from services.engine.decoder.native import BLOCK_SIZE, Decoder
from tests.native.harness.devices import DEVICES, in_weight_formats, make_device
from tests.native.harness.random_models import PLAIN, PagedDecoder, random_tokens

_BEGUN = BLOCK_SIZE + 9  # tokens: the second block is not full


def read(decoder: Decoder, block: int) -> np.ndarray:
    page = np.full(decoder.block_bytes, 0xA5, np.uint8)
    decoder.read_block(block, page)
    return page


@in_weight_formats("f32", "bf16", "int8", "fp8")  # keys and values are in the same
def test_a_block_copied_to_another_decoder_keeps_its_bits(device_name: str, weight_format: str) -> None:
    tokens = random_tokens(PLAIN, 1, 2 * BLOCK_SIZE)
    device = make_device(device_name, threads=1)
    first = PagedDecoder(PLAIN, device, weight_format, tokens=tokens)
    other = PagedDecoder(PLAIN, device, weight_format, tokens=tokens, seed=3)
    first.forward([(0, position) for position in range(_BEGUN)])
    for source, target in zip(first.batch.block_tables[0], other.batch.block_tables[0], strict=True):
        page = read(first.decoder, int(source))
        assert np.array_equal(page, read(first.decoder, int(source)))
        other.decoder.write_block(int(target), page)
        assert np.array_equal(read(other.decoder, int(target)), page)
    rest = [(0, position) for position in range(_BEGUN, 2 * BLOCK_SIZE)]
    logits = other.forward(rest)
    assert np.array_equal(logits, first.forward(rest))
    assert not np.isnan(logits).any()


@pytest.mark.parametrize("device_name", DEVICES)
def test_other_blocks_stay_as_they_were(device_name: str) -> None:
    decoder = PagedDecoder(
        PLAIN, make_device(device_name, threads=1), "bf16", tokens=random_tokens(PLAIN, 1, 2 * BLOCK_SIZE)
    ).decoder
    before = [read(decoder, block) for block in range(decoder.num_blocks)]
    decoder.write_block(1, np.arange(decoder.block_bytes, dtype=np.uint32).astype(np.uint8))
    after = [read(decoder, block) for block in range(decoder.num_blocks)]
    assert [index for index, page in enumerate(after) if not np.array_equal(page, before[index])] == [1]


def test_pages_of_a_wrong_block_or_size_are_refused() -> None:
    decoder = PagedDecoder(PLAIN, make_device(DEVICES[0], 1), "bf16", tokens=random_tokens(PLAIN, 1, 4)).decoder
    page = np.zeros(decoder.block_bytes, np.uint8)
    for call in (decoder.read_block, decoder.write_block):
        for block in (-1, decoder.num_blocks):
            with pytest.raises(ValueError, match=r"block is -?\d+; it must be in 0 \.\.\. "):
                call(block, page)
        for other in (page[1:], page.reshape(1, -1), np.zeros(0, np.uint8)):
            with pytest.raises(ValueError, match=f"page: must have one dimension, of {len(page)} bytes"):
                call(0, other)
        with pytest.raises(TypeError):
            call(0, page.view(np.int8))
    page.flags.writeable = False
    with pytest.raises(ValueError, match="not writeable"):
        decoder.read_block(0, page)
