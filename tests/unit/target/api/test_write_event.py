"""Messages of bounded size: the pieces of a chunk spell the same text at every token."""

from dataclasses import replace

import pytest

from services.engine.events import Chunk, Progress
from services.engine.request import OutputOptions
from services.target.api.responses import write_event
from tests.unit.consumer import Consumer
from tests.unit.sequences import byte_tokenizer, make_request, records_of

TEXT = "né — 東京 stop"
OPTIONS = {"stop_strings": ["stop!"], "max_tokens": len(TEXT.encode())}
RECORDED = replace(make_request(), output=OutputOptions(records=True))
LIMIT = "services.target.api.records.MAX_RECORDS_BYTES"


async def chunks_of(*runs: bytes) -> list[Chunk]:
    """The chunks of a generation that commits these runs of tokens."""
    consumer = Consumer(make_request(**OPTIONS))
    for run in runs:
        consumer.commit([*run])
    return [event async for event in consumer.stream if isinstance(event, Chunk)]


@pytest.mark.parametrize("limit", [1, 40, 1 << 20])
@pytest.mark.parametrize("size", [1, 4, 99])
async def test_a_chunk_is_cut_between_tokens_with_the_text_of_each(
    size: int, limit: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(LIMIT, limit)
    data = TEXT.encode()
    (chunk,) = await chunks_of(*(data[start : start + size] for start in range(0, len(data), size)))
    pieces = [response.chunk for response in write_event(chunk, RECORDED, byte_tokenizer())]
    assert [token_id for piece in pieces for token_id in piece.token_ids] == [*data]
    assert all([record.id for record in piece.records] == list(piece.token_ids) for piece in pieces)
    assert {1: len(pieces) == len(data), 40: 1 < len(pieces) < len(data), 1 << 20: len(pieces) == 1}[limit]
    released = await released_one_by_one(data)
    ends = [sum(len(piece.token_ids) for piece in pieces[: i + 1]) for i in range(len(pieces))]
    texts = ["".join(piece.text for piece in pieces[: i + 1]) for i in range(len(pieces))]
    assert texts == ["".join(released[:end]) for end in ends]
    assert texts[-1] == TEXT


async def released_one_by_one(data: bytes) -> list[str]:
    """What each token of the same generation releases by itself."""
    consumer = Consumer(make_request(**OPTIONS))
    reader = aiter(consumer.stream)
    released = []
    for token_id in data:
        consumer.commit([token_id])
        released.append((await anext(reader)).text)
    return released


async def test_records_of_a_prompt_are_cut_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(LIMIT, 1)
    progress = Progress(3, 9, tuple(records_of(b"abc")))
    prefills = [response.prefill for response in write_event(progress, RECORDED, byte_tokenizer())]
    assert [(prefill.done_tokens, prefill.total_tokens) for prefill in prefills] == [(3, 9)] * 3
    assert [record.id for prefill in prefills for record in prefill.records] == [*b"abc"]


def test_without_records_nothing_is_cut(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(LIMIT, 1)
    (response,) = write_event(Chunk("abc", tuple(records_of(b"abc"))), make_request(), byte_tokenizer())
    assert (response.chunk.text, list(response.chunk.token_ids)) == ("abc", [*b"abc"])
