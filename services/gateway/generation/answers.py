"""Answers: reads the streams of one request, one for each prompt, as pieces of its choices."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from collections.abc import Sequence as Seq
from typing import TypeVar

from outrider import AsyncStream, Chunk, Result, Started, Token
from services.gateway.generation.piece import Piece, pieces_of, pieces_of_prompt
from services.gateway.generation.problem import Kind, Problem

Item = TypeVar("Item")
_MOST_EARLY = 1 << 14  # chunks that are buffered until every answer has begun


class Answers:
    """Choice `i * samples + j` is sample j of prompt i. A caller that stops early must call `cancel`."""

    def __init__(self, streams: Seq[AsyncStream], samples: int, *, reads_messages: bool) -> None:
        self.samples = samples
        self._streams = streams
        self._reads_messages = reads_messages
        self._early: list[tuple[int, Chunk | None]] = []
        self._reading: dict[asyncio.Task[Chunk | None], int] = {}
        self._iterators = [aiter(stream) for stream in streams]

    async def admitted(self) -> None:
        """Wait until every request is admitted, or has its first chunk, and begin to read; raises OutriderError."""
        for index in range(len(self._iterators)):
            self._read_on(index)
        await asyncio.gather(*(self._admission(first, index) for first, index in self._reading.items()))

    async def _admission(self, first: "asyncio.Task[Chunk | None]", index: int) -> None:
        admission = asyncio.create_task(self._streams[index].admitted())
        try:
            await asyncio.wait((first, admission), return_when=asyncio.FIRST_COMPLETED)
        finally:
            admission.cancel()
        if first.done():
            first.result()

    async def begin(self) -> None:
        """Wait for the first chunk of every answer: only then is its start known. Raises OutriderError."""
        if len(self._iterators) == 1:  # whose other chunks are read without tasks, which would cost time
            (first,) = self._reading or (_next(self._iterators[0]),)
            self._early = [(0, await first)]
            self._reading.clear()
            return
        unknown, held = set(range(len(self._iterators))), []
        for index in unknown - set(self._reading.values()):
            self._read_on(index)
        while unknown:  # keep reading meanwhile: a target fails streams that are not read in time (backpressure)
            for index, chunk in await self._arrived():
                unknown.discard(index)
                if chunk is None:
                    continue
                self._early.append((index, chunk))
                if len(self._early) < _MOST_EARLY:
                    self._read_on(index)
                else:
                    held.append(index)
        for index in held:
            self._read_on(index)

    async def pieces(self) -> AsyncIterator[Piece]:
        """Yield the records of the prompts, if requested, and then all pieces; raises OutriderError."""
        for piece in self._early_pieces():
            yield piece
            if piece.is_of_prompt or len(self._early) > 1:
                await asyncio.sleep(0)  # these pieces need no waiting: let other requests run between them
        if len(self._iterators) == 1:
            async for following in self._iterators[0]:
                for piece in self._pieces(0, following):
                    yield piece
        while self._reading:
            for index, chunk in await self._arrived():
                for piece in self._pieces(index, chunk):
                    yield piece
                if chunk is not None:
                    self._read_on(index)

    async def _arrived(self) -> list[tuple[int, Chunk | None]]:
        """Wait for the next chunks, by the indices of their answers; None is the end of an answer."""
        done, _ = await asyncio.wait(self._reading, return_when=asyncio.FIRST_COMPLETED)
        return [(self._reading.pop(task), task.result()) for task in done]

    def _read_on(self, index: int) -> None:
        self._reading[_next(self._iterators[index])] = index

    def _early_pieces(self) -> Iterator[Piece]:
        """Yield the pieces that are there when every answer has begun."""
        for prompt, records in enumerate(self.prompt_records()):
            for choice in range(prompt * self.samples, (prompt + 1) * self.samples):
                yield from pieces_of_prompt(records, choice)
        for index, chunk in self._early:
            yield from self._pieces(index, chunk)

    def _pieces(self, prompt: int, chunk: Chunk | None) -> Seq[Piece]:
        if chunk is None:
            return ()
        choice = prompt * self.samples + chunk.sample
        return tuple(pieces_of(chunk, choice, reads_messages=self._reads_messages))

    @property
    def num_choices(self) -> int:
        """The number of answers to all prompts."""
        return len(self._streams) * self.samples

    @property
    def started(self) -> tuple[Started, ...]:
        """The start of each answer, once all have begun; raises Problem if the targets' fingerprints differ."""
        started = tuple(stream.started for stream in self._streams if stream.started is not None)
        if len(started) < len(self._streams) or any(one.fingerprint != started[0].fingerprint for one in started):
            raise Problem(Kind.UNAVAILABLE, "the targets that answer the prompts are of different models or builds")
        return started

    def prompt_records(self) -> list[tuple[Token, ...]]:
        """Return the records of each prompt's tokens, if requested, once all answers have begun."""
        return [stream.received.prompt_records for stream in self._streams]

    def results(self) -> list[Result]:
        """Return the result of each prompt, once all pieces are read."""
        return [stream.result for stream in self._streams]

    def cancel(self) -> None:
        """Cancel the generations that still run."""
        for stream in self._streams:
            stream.cancel()
        for task in self._reading:
            task.cancel()


def _next(iterator: AsyncIterator[Item]) -> "asyncio.Task[Item | None]":
    async def step() -> Item | None:
        return await anext(iterator, None)

    task = asyncio.create_task(step())
    task.add_done_callback(_seen)
    return task


def _seen(task: "asyncio.Task[Item | None]") -> None:
    """Mark an exception as retrieved: if several answers fail together, only one of them is reported."""
    if not task.cancelled():
        task.exception()
