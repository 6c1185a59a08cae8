"""Answers: the streams of one request, one per prompt, read as pieces of its choices."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from collections.abc import Sequence as Seq
from typing import TypeVar

from outrider import AsyncStream, Chunk, Result, Started, Token
from services.gateway.generation.piece import Piece, pieces_of, pieces_of_prompt
from services.gateway.generation.problem import Kind, Problem

Item = TypeVar("Item")
_MOST_EARLY = 1 << 14  # chunks that are kept until every answer has begun


class Answers:
    """Choice `i * samples + j` is sample j of prompt i. Whoever leaves early calls `cancel`."""

    def __init__(self, streams: Seq[AsyncStream], samples: int, *, reads_messages: bool) -> None:
        self.samples = samples
        self._streams = streams
        self._reads_messages = reads_messages
        self._early: list[tuple[int, Chunk | None]] = []
        self._reading: dict[asyncio.Task[Chunk | None], int] = {}
        self._iterators: list[AsyncIterator[Chunk]] = []

    async def begin(self) -> None:
        """Wait for the first of every answer, so that what is wrong is known before anything is sent.

        Raises OutriderError.
        """
        self._iterators = [aiter(stream) for stream in self._streams]
        if len(self._iterators) == 1:  # a task more would be time lost
            self._early = [(0, await anext(self._iterators[0], None))]
            return
        unknown, held = set(range(len(self._iterators))), []
        for index in unknown:
            self._read_on(index)
        while unknown:  # a target gives up on whoever does not read what is written already
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
        """Records of the prompts, if asked for, and all that follows; raises OutriderError."""
        for piece in self._early_pieces():
            yield piece
            if piece.is_of_prompt or len(self._early) > 1:
                await asyncio.sleep(0)  # all of them are there at once: between them others have their turn
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
        """What has come next, of the answers that are read; None is the end of one."""
        done, _ = await asyncio.wait(self._reading, return_when=asyncio.FIRST_COMPLETED)
        return [(self._reading.pop(task), task.result()) for task in done]

    def _read_on(self, index: int) -> None:
        self._reading[_next(self._iterators[index])] = index

    def _early_pieces(self) -> Iterator[Piece]:
        """What is there when every answer has begun."""
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
        for task in self._reading:
            task.cancel()


def _next(iterator: AsyncIterator[Item]) -> "asyncio.Task[Item | None]":
    async def step() -> Item | None:
        return await anext(iterator, None)

    task = asyncio.create_task(step())
    task.add_done_callback(_seen)
    return task


def _seen(task: "asyncio.Task[Item | None]") -> None:
    """Of several answers that fail together one says why."""
    if not task.cancelled():
        task.exception()
