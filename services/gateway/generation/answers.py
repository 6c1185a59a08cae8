"""Answers: the streams of one request, one per prompt, read as pieces of its choices."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from collections.abc import Sequence as Seq
from typing import TypeVar

from outrider import AsyncStream, Chunk, Result, Started, Token
from services.gateway.generation.piece import Piece, pieces_of
from services.gateway.generation.problem import Kind, Problem

Item = TypeVar("Item")


class Answers:
    """Choice `i * samples + j` is sample j of prompt i. Whoever leaves early calls `cancel`."""

    def __init__(self, streams: Seq[AsyncStream], samples: int, *, reads_messages: bool) -> None:
        self.samples = samples
        self._streams = streams
        self._reads_messages = reads_messages
        self._first: list[Chunk | None] = []
        self._iterators: list[AsyncIterator[Chunk]] = []

    async def begin(self) -> None:
        """Wait for the first of every answer, so that what is wrong is known before anything is sent.

        Raises OutriderError.
        """
        self._iterators = [aiter(stream) for stream in self._streams]
        if len(self._iterators) == 1:  # a task more would be time lost
            self._first = [await anext(self._iterators[0], None)]
        else:
            self._first = await asyncio.gather(*(anext(iterator, None) for iterator in self._iterators))

    async def pieces(self) -> AsyncIterator[Piece]:
        """All that follows; raises OutriderError."""
        for index, chunk in enumerate(self._first):
            for piece in self._pieces(index, chunk):
                yield piece
        async for index, chunk in _merged(self._iterators):
            for piece in self._pieces(index, chunk):
                yield piece

    def _pieces(self, prompt: int, chunk: Chunk | None) -> Seq[Piece]:
        if chunk is None:
            return ()
        choice = prompt * self.samples + chunk.sample
        return tuple(pieces_of(chunk, choice, reads_messages=self._reads_messages))

    @property
    def num_choices(self) -> int:
        """Answers in all."""
        return len(self._streams) * self.samples

    @property
    def started(self) -> Started:
        """How the first answer started, once they have begun; raises Problem where others did under other builds."""
        started = [stream.started for stream in self._streams]
        first = started[0]
        assert first is not None
        if any(one is None or one.fingerprint != first.fingerprint for one in started):
            raise Problem(Kind.UNAVAILABLE, "the targets that answer the prompts are of different models or builds")
        return first

    def prompt_records(self) -> list[tuple[Token, ...]]:
        """For each prompt the records of its tokens, if asked for, once they have begun."""
        return [stream.received.prompt_records for stream in self._streams]

    def results(self) -> list[Result]:
        """For each prompt the whole of its answers, once all pieces are read."""
        return [stream.result for stream in self._streams]

    def cancel(self) -> None:
        """End what is still written."""
        for stream in self._streams:
            stream.cancel()


async def _merged(iterators: Seq[AsyncIterator[Item]]) -> AsyncGenerator[tuple[int, Item], None]:
    """What all of them give, with the number of the one that gave it, as it comes."""
    if len(iterators) == 1:
        async for one in iterators[0]:
            yield 0, one
        return
    waiting = {_next(iterator): index for index, iterator in enumerate(iterators)}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                index = waiting.pop(task)
                item = task.result()
                if item is not None:
                    yield index, item
                    waiting[_next(iterators[index])] = index
    finally:
        for task in waiting:
            task.cancel()


def _next(iterator: AsyncIterator[Item]) -> "asyncio.Task[Item | None]":
    async def step() -> Item | None:
        return await anext(iterator, None)

    return asyncio.create_task(step())
