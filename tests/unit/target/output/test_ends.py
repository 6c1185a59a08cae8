"""Ends of a generation: by time, by a loop, by a stop that is included; each with all of the text."""

import asyncio
import math
import time
from dataclasses import dataclass
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.events import Event, FinishReason
from services.engine.request import Loop, Request
from tests.unit.consumer import Consumer
from tests.unit.sequences import make_request

TOKENLESS = [FinishReason.DEADLINE, FinishReason.TIME_LIMIT, FinishReason.NO_CANDIDATES, FinishReason.INVALID_LOGITS]


@pytest.mark.parametrize("reason", TOKENLESS)
async def test_an_end_without_a_token_releases_held_text_itself(reason):
    """The text of the chunks stays that of the tokens, so a continuation goes on from it."""
    consumer = Consumer(make_request(stop_strings=["END"]))
    consumer.commit(b"a EN")
    consumer.output.finish(reason)
    consumer.output.write()
    chunk, end = [event async for event in consumer.stream]
    assert (chunk.text, end.text, end.reason) == ("a ", "EN", reason)
    assert bytes(record.token_id for record in chunk.records) == b"a EN"


@given(
    st.text("aé END", max_size=12).map(str.encode),
    st.lists(st.sampled_from(["END", "ENé", "  ", "é"]), max_size=3),
    st.sampled_from(TOKENLESS),
    st.integers(1, 5),
)
def test_an_end_without_a_token_has_the_text_of_one_with_a_token(tokens, stops, reason, step):
    async def text_at_the_end(max_tokens: int) -> str:
        consumer = Consumer(make_request(stop_strings=stops, max_tokens=max_tokens))
        for start in range(0, len(tokens), step):
            if not consumer.sequence.is_finished:
                consumer.commit(tokens[start : start + step])
        if not consumer.sequence.is_finished:
            consumer.output.finish(reason)
            consumer.output.write()
        return (await consumer.read())[0]

    async def both() -> None:
        assert await text_at_the_end(100) == await text_at_the_end(max(len(tokens), 1))

    asyncio.run(both())


@pytest.mark.parametrize(
    ("deadline", "time_limit", "reason"),
    [(-1.0, None, "DEADLINE"), (None, 0.0, "TIME_LIMIT"), (3600.0, 0.0, "TIME_LIMIT"), (-1.0, 3600.0, "DEADLINE")],
)
async def test_the_time_that_ends_first_is_the_reason(deadline, time_limit, reason):
    now = time.monotonic()
    request = make_request(deadline=None if deadline is None else now + deadline, time_limit=time_limit)
    consumer = Consumer(request)
    assert consumer.sequence.expires_at <= time.monotonic()
    consumer.output.expire()
    consumer.output.write()
    assert (await consumer.read())[2].reason is FinishReason[reason]


async def test_without_a_limit_there_is_time_without_end():
    assert Consumer(make_request()).sequence.expires_at == math.inf


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(("min_tokens", "expected"), [(0, b"xababab"), (9, b"xabababab")])
async def test_a_loop_ends_the_generation_with_its_closing_token(at_once, min_tokens, expected):
    loop = Loop(window=6, repetitions=3)
    consumer = Consumer(make_request(loop=loop, min_tokens=min_tokens, stop_strings=["bX"]))
    for tokens in [b"xababababab"] if at_once else [bytes([byte]) for byte in b"xababababab"]:
        if not consumer.sequence.is_finished:
            consumer.commit(tokens)
    text, ids, end = await consumer.read()
    assert (text, bytes(ids), end.reason) == (expected.decode(), expected, FinishReason.LOOP)


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"stop_strings": ["bb"]}, "STOP_STRING"), ({"stop_ids": [98]}, "STOP_TOKEN"), ({"max_tokens": 3}, "LOOP")],
)
async def test_a_stop_comes_before_a_loop_and_a_loop_before_a_limit(options, reason):
    consumer = Consumer(make_request(loop=Loop(window=2, repetitions=2), **options))
    consumer.commit(b"abb")
    assert (await consumer.read())[2].reason is FinishReason[reason]


@pytest.mark.parametrize(
    ("options", "text", "reason"),
    [({"stop_strings": ["END"]}, "a END", "STOP_STRING"), ({"stop_ids": [ord("D")]}, "a END", "STOP_TOKEN")],
)
async def test_a_stop_is_part_of_the_text_if_included(options, text, reason):
    consumer = Consumer(make_request(include_stop=True, **options))
    consumer.commit(b"a END!")
    shown, ids, end = await consumer.read()
    assert (shown, bytes(ids), end.reason) == (text, b"a END", FinishReason[reason])


@dataclass(frozen=True)
class Case:
    """A generation with its end: by one of the limits, or without a token, after the last one here."""

    tokens: list[int]
    stops: list[str]
    stop_ids: list[int]
    max_tokens: int
    loop: Loop | None
    include_stop: bool
    reason: FinishReason
    sizes: list[int]  # of the runs that are committed at once

    def expected(self) -> tuple[bytes, int, FinishReason]:
        """All text, how many tokens there are, and the reason, from the whole strings."""
        for count in range(1, len(self.tokens) + 1):
            text = bytes(self.tokens[:count])
            if text[-1] in self.stop_ids:
                return text if self.include_stop else text[:-1], count, FinishReason.STOP_TOKEN
            if found := [(text.find(stop.encode()), -len(stop), stop) for stop in self.stops if stop.encode() in text]:
                start, _, stop = min(found)
                end = start + len(stop.encode()) if self.include_stop else start
                return text[:end], count, FinishReason.STOP_STRING
            if self.loop is not None and _is_loop(text[-self.loop.window :], self.loop):
                return text, count, FinishReason.LOOP
            if count == self.max_tokens:
                return text, count, FinishReason.MAX_TOKENS
        return bytes(self.tokens), len(self.tokens), self.reason

    def request(self, received: list[int]) -> Request:
        """The request, to be continued after these tokens."""
        return make_request(
            received=received,
            stop_strings=self.stops,
            stop_ids=self.stop_ids,
            max_tokens=self.max_tokens,
            loop=self.loop,
            include_stop=self.include_stop,
        )


def _is_loop(text: bytes, loop: Loop) -> bool:
    periods = range(1, loop.window // loop.repetitions + 1)
    return len(text) == loop.window and any(text[period:] == text[:-period] for period in periods)


async def chunks_of(case: Case, received: list[int]) -> list[Event]:
    """The events after some tokens were received."""
    consumer = Consumer(case.request(received))
    rest, sizes = case.tokens[len(received) :], cycle(case.sizes)
    while rest and not consumer.sequence.is_finished:
        size = next(sizes)
        consumer.commit(rest[:size])
        rest = rest[size:]
    if not consumer.sequence.is_finished:
        consumer.output.finish(case.reason)
        consumer.output.write()
    elif not consumer.sequence.num_generated > len(received):
        consumer.output.write()
    return [event async for event in consumer.stream]


@given(
    st.builds(
        Case,
        tokens=st.text("ab\nEé漢", max_size=20).map(str.encode).map(list) | st.lists(st.sampled_from(b"ab\xc3\xa9")),
        stops=st.lists(st.text("ab\nEé", min_size=1, max_size=4), max_size=3),
        stop_ids=st.sampled_from([[], [], [ord("E")]]),
        max_tokens=st.integers(1, 24),
        loop=st.sampled_from([None, Loop(window=4, repetitions=2), Loop(window=7, repetitions=3)]),
        include_stop=st.booleans(),
        reason=st.sampled_from(TOKENLESS),
        sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    ),
    st.integers(0, 24),
)
def test_at_any_end_all_text_is_there_and_tokens_match_it(case: Case, cut: int):
    text, num_tokens, reason = case.expected()

    async def check() -> None:
        *chunks, end = await chunks_of(case, [])
        ids = [record.token_id for chunk in chunks for record in chunk.records]
        said = "".join(chunk.text for chunk in chunks)
        assert (said + end.text, ids, end.reason) == (text.decode(errors="replace"), case.tokens[:num_tokens], reason)
        assert end.text == "" or reason is case.reason
        received = ids[:cut]
        before = await _text_after(case, received)
        *chunks, end = await chunks_of(case, received)
        rest = "".join(chunk.text for chunk in chunks)
        assert (before + rest + end.text, end.reason) == (text.decode(errors="replace"), reason)
        assert received + [record.token_id for chunk in chunks for record in chunk.records] == ids

    asyncio.run(check())


async def _text_after(case: Case, received: list[int]) -> str:
    """The text of the chunks that hold these tokens."""
    if not received:
        return ""
    consumer = Consumer(case.request([]))
    consumer.commit(received)
    return (await anext(aiter(consumer.stream))).text
