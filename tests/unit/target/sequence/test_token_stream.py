"""TokenStream: events from the engine thread come out once, in order and whole, however slowly they are read."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from services.engine.events import (
    Chunk,
    Failed,
    Finished,
    FinishReason,
    PassReport,
    Progress,
    SpeculationStats,
    Timings,
)
from services.target.sequence.token_stream import TokenStream, interleaved
from tests.unit.sequences import make_stream, records_of

FINISHED = Finished(
    reason=FinishReason.MAX_TOKENS,
    stop_token_id=None,
    stop_string=None,
    prompt_tokens=1,
    completion_tokens=1,
    cached_tokens=0,
    preemptions=0,
    timings=Timings(),
    speculation=SpeculationStats(),
)


def chunk(text: str) -> Chunk:
    return Chunk(text, tuple(records_of(text.encode())))


async def read(stream: TokenStream) -> list:
    return [event async for event in stream]


async def test_events_come_in_order_and_the_end_is_the_last():
    stream = make_stream()
    events = [Progress(1, 2), chunk("a"), FINISHED]
    for event in events:
        stream.put(event)
    assert await read(stream) == events


@pytest.mark.parametrize("end", [FINISHED, Failed("the engine has failed")])
async def test_nothing_follows_the_end(end):
    stream = make_stream()
    for event in [chunk("a"), end, chunk("b")]:
        stream.put(event)
    assert await read(stream) == [chunk("a"), end]


async def test_waiting_chunks_become_one():
    stream = make_stream()
    first, second = (PassReport(None, (), 0.0, seconds) for seconds in (1.0, 2.0))
    reported = replace(chunk("ab"), reports=(first,))
    for event in [reported, Chunk("", chunk("c").records, (second,)), chunk("cd"), FINISHED]:
        stream.put(event)
    merged, _ = await read(stream)
    assert merged == Chunk("abcd", chunk("abccd").records, (first, second))


async def test_the_newest_of_waiting_progress_is_kept():
    stream = make_stream()
    for event in [Progress(1, 9), Progress(5, 9), chunk("a"), FINISHED]:
        stream.put(event)
    assert await read(stream) == [Progress(5, 9), chunk("a"), FINISHED]


async def test_a_reader_that_waits_first_is_woken():
    stream = make_stream()
    reader = asyncio.create_task(read(stream))
    await asyncio.sleep(0)
    for event in [chunk("a"), FINISHED]:
        thread = threading.Thread(target=stream.put, args=[event])
        thread.start()
        thread.join()
        await asyncio.sleep(0)
    assert await reader == [chunk("a"), FINISHED]


async def test_a_cancelled_read_takes_nothing_away():
    stream = make_stream()
    reader = asyncio.create_task(anext(aiter(stream)))
    await asyncio.sleep(0)
    reader.cancel()
    stream.put(chunk("a"))
    stream.put(FINISHED)
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert await read(stream) == [chunk("a"), FINISHED]


async def test_a_stream_is_full_at_its_capacity_of_waiting_tokens():
    num_drained = 0

    def on_drained() -> None:
        nonlocal num_drained
        num_drained += 1

    stream = TokenStream(capacity=3, on_drained=on_drained)
    reader = aiter(stream)
    stream.put(Progress(1, 1))
    stream.put(chunk("ab"))
    assert not stream.is_full
    stream.put(chunk("c"))
    assert stream.is_full
    assert isinstance(await anext(reader), Progress)
    assert (stream.is_full, num_drained) == (True, 0)
    await anext(reader)
    assert (stream.is_full, num_drained) == (False, 1)
    stream.put(chunk("d"))
    await anext(reader)
    assert num_drained == 1  # it had not been full


async def test_waiting_progress_is_merged_and_its_records_count():
    first, second = tuple(records_of(b"ab")), tuple(records_of(b"c"))
    stream = make_stream(capacity=3)
    stream.put(Progress(2, 9, first))
    assert not stream.is_full
    stream.put(Progress(3, 9, second))
    assert stream.is_full
    stream.put(FINISHED)
    reader = aiter(stream)
    assert await anext(reader) == Progress(3, 9, first + second)
    assert not stream.is_full


def test_merged_chunks_keep_the_text_of_each_token():
    records = records_of(b"abcde")
    merged = Chunk("xyz", tuple(records[:3]), ends=(0, 2, 3)) + Chunk("uv.", tuple(records[3:]), ends=(2, 2))
    assert [merged.text_of(i, i + 1) for i in range(5)] == ["", "xy", "z", "uv", "."]
    assert [merged.text_of(0, 2), merged.text_of(2, 5), merged.text_of(0, 5)] == ["xy", "zuv.", "xyzuv."]


@pytest.mark.parametrize("capacity", [1, 7, 1000])
async def test_a_producer_that_heeds_the_bound_delivers_everything(capacity):
    """The producer runs as the engine does: it stops at a full stream, and continues when the stream reports room."""
    has_room = threading.Event()
    stream = TokenStream(capacity=capacity, on_drained=has_room.set)
    text = "".join(chr(ord("a") + i % 26) for i in range(3000))

    def produce() -> None:
        for start in range(0, len(text), 3):
            while stream.is_full:
                has_room.wait()
                has_room.clear()
            stream.put(chunk(text[start : start + 3]))
        stream.put(FINISHED)

    producer = threading.Thread(target=produce)
    producer.start()
    chunks = []
    async for event in stream:
        if isinstance(event, Chunk):
            chunks.append(event)
            await asyncio.sleep(0 if len(chunks) % 5 else 0.001)
    producer.join()
    assert "".join(part.text for part in chunks) == text
    assert [record for part in chunks for record in part.records] == records_of(text.encode())
    assert max(len(part.records) for part in chunks) <= capacity + 2


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_interleaved_streams_give_all_events_each_in_its_order(count):
    streams = [make_stream() for _ in range(count)]
    events = [Progress(1, 2), chunk("a"), FINISHED]
    got: list = []

    async def collect() -> None:
        async for index, event in interleaved(streams):
            got.append((index, event))

    reading = asyncio.create_task(collect())
    for event in events:
        for stream in reversed(streams):
            stream.put(event)
        while len(got) < count * (events.index(event) + 1):
            await asyncio.sleep(0)
    await reading
    assert all([event for at, event in got if at == index] == events for index in range(count))
    assert [index for index, _ in got] != sorted(index for index, _ in got) or count == 1


async def test_leaving_interleaved_streams_leaves_unread_events():
    streams = [make_stream(capacity=1) for _ in range(3)]
    for stream in streams:
        stream.put(chunk("a"))
    events = interleaved(streams)
    index, _ = await anext(events)
    for stream in streams:
        stream.put(FINISHED)
    await events.aclose()
    assert not streams[index].is_full
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_reader_of_many_events_waits_for_its_turn_before_each():
    turns: list[Callable[[], object]] = []
    stream = TokenStream(capacity=9, on_drained=lambda: None, take_turn=lambda _, call: turns.append(call))
    for event in (Progress(1, 1), chunk("a"), FINISHED):
        stream.put(event)
    reader = asyncio.create_task(read(stream))
    for num_turns in (1, 2):
        for _ in range(10):
            await asyncio.sleep(0)
        assert (len(turns), reader.done()) == (num_turns, False)
        turns[-1]()
    assert await reader == [Progress(1, 1), chunk("a"), FINISHED]
