"""Batch: its arrays are views of its memory, and it takes no more than it has room for."""

import pytest

from services.engine.decoder.native import Batch


def test_a_batch_is_views_of_its_own_memory():
    batch = Batch(max_rows=3, max_sequences=2, max_blocks=5)
    assert batch.token_ids.shape == batch.positions.shape == batch.sequences.shape == batch.logit_rows.shape == (3,)
    assert batch.block_tables.shape == (2, 5)
    view = batch.block_tables
    view[1, 4] = 17
    assert batch.block_tables[1, 4] == 17
    del batch
    assert view[1, 4] == 17
    with pytest.raises(ValueError, match="max_rows is 0"):
        Batch(max_rows=0, max_sequences=1, max_blocks=1)


@pytest.mark.parametrize(("field", "most"), [("num_rows", 3), ("num_sequences", 2), ("num_logits", 3)])
def test_a_batch_counts_no_more_than_it_has_room_for(field, most):
    batch = Batch(max_rows=3, max_sequences=2, max_blocks=5)
    for count in (0, most):
        setattr(batch, field, count)
    for count in (-1, most + 1, 2**31 - 1, 2**62):
        with pytest.raises(ValueError, match=rf"{field} is {count}; it must be in 0 \.\.\. {most}"):
            setattr(batch, field, count)
    assert getattr(batch, field) == most


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("token_ids", [], r"token_ids is 0; it must be in 1 \.\.\. 3"),
        ("token_ids", [1] * 4, r"token_ids is 4; it must be in 1 \.\.\. 3"),
        ("position", -1, r"position is -1; it must be in 0 \.\.\. 63"),
        ("position", 64, r"position is 64; it must be in 0 \.\.\. 63"),
        ("position", 2**31 - 2, r"position is 2147483646; it must be in 0 \.\.\. 63"),
        ("blocks", [0] * 3, r"blocks is 3; it must be in 0 \.\.\. 2"),
        ("num_logits", 2, r"num_logits is 2; it must be in 0 \.\.\. 1"),
    ],
)
def test_a_batch_refuses_rows_beyond_its_capacity(argument, value, message):
    batch = Batch(max_rows=3, max_sequences=2, max_blocks=2)
    good = {"token_ids": [1], "position": 0, "blocks": [0], "num_logits": 1}
    with pytest.raises(ValueError, match=message):
        batch.append(**{**good, argument: value})
    assert (batch.num_rows, batch.num_sequences, batch.num_logits) == (0, 0, 0)
    batch.num_logits = 3
    with pytest.raises(ValueError, match=r"num_logits is 1; it must be in 0 \.\.\. 0"):
        batch.append(**good)
