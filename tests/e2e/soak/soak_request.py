"""SoakRequest: one random request of the soak, and how it ends: by itself, or by its client, or by the server."""

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import grpc

from outrider import (
    AsyncClient,
    DeadlineExceeded,
    FinishReason,
    InvalidArgument,
    OutriderError,
    ResourceExhausted,
    Result,
    Unavailable,
)
from tests.e2e.matrix.grammars import ENDLESS
from tests.e2e.matrix.streams import source_prompt
from tests.e2e.matrix.transcript import Transcript

_LONGEST_PROMPT, _LONGEST_ANSWER = 200, 1500  # tokens
_MOST_PREDICTIONS = 15
_SLOW_CHUNKS = 5
READER_TIMEOUT = 10.0  # of the target, seconds: a soak on a busy machine may itself be late by a few
STALL_SECONDS = 2 * READER_TIMEOUT
REFUSED = "refused for load"
SILENCE = "the stream has not been read"  # what a target says that ends a stream for it
_STOPS = ("\n\n", "return", "self.", "):\n", '"""', "zzz")


@dataclass(frozen=True, slots=True)
class SoakRequest:
    """A piece of source code, the options that decide its continuation, and those that must not change it."""

    start: int
    length: int
    options: dict[str, Any]
    num_predictions: int  # 0: as many as the server likes
    cancels_at: int | None = None  # tokens
    deadline: float | None = None  # seconds
    pause: float = 0.0  # seconds, that its reader takes for each of its first chunks
    is_bad: bool = False  # no server can serve it

    @classmethod
    def draw(cls, rng: random.Random) -> "SoakRequest":
        """Most clients wait for the end; some leave, some are in a hurry, some are slow, and some ask for nonsense."""
        num_tokens = int(_LONGEST_ANSWER ** rng.uniform(0.3, 1.0))  # short ones are as many as long ones
        kind, manner = rng.random(), rng.random()
        return cls(
            start=rng.randrange(200),
            length=rng.randrange(1, _LONGEST_PROMPT),
            options={**_sampling(rng), **_ending(rng), "max_tokens": num_tokens},
            num_predictions=rng.randrange(_MOST_PREDICTIONS + 1),
            cancels_at=rng.randrange(num_tokens) if kind < 0.15 else None,
            deadline=rng.uniform(0.01, 1.0) if kind > 0.85 else None,
            pause=0.0 if manner > 0.15 else 0.1 if manner > 0.03 else STALL_SECONDS,
            is_bad=manner > 0.92,
        )

    @property
    def prompt(self) -> list[int]:
        """The token ids of the prompt."""
        return source_prompt(self.start, self.length)

    async def reference(self, client: AsyncClient) -> Transcript:
        """The whole answer, without predictions."""
        return Transcript.of(await client.generate(self.prompt, **self.options, speculation="never"))

    async def send(self, client: AsyncClient) -> "Answer":
        """As much of the answer as there is for this client; raises OutriderError for an end that is no part of the
        soak.
        """
        answer = Answer()
        try:
            await self._read(client, answer)
        except OutriderError as error:
            answer.end = self._end(error)
            if not answer.end:
                raise
        return answer

    async def _read(self, client: AsyncClient, answer: "Answer") -> None:
        always = {"speculation": "always", "num_predictions": self.num_predictions} if self.num_predictions else {}
        options = {**self.options, **always, **({"top_p": -1.0} if self.is_bad else {})}
        async with client.stream(self.prompt, timeout=self.deadline, **options) as stream:
            async for chunk in stream:
                answer.tokens.extend(chunk.tokens)
                answer.text += chunk.text if chunk.tokens else ""  # else it is held back until an end by time
                answer.num_chunks += 1
                if self.cancels_at is not None and len(answer.tokens) > self.cancels_at:
                    answer.end = "left by its client"
                    return
                if answer.num_chunks <= (_SLOW_CHUNKS if self.pause < READER_TIMEOUT else 1):
                    await asyncio.sleep(self.pause)
            answer.result = stream.result
            answer.end = "whose time was over" if not answer.is_whole else "slow and whole" if self.pause else "whole"

    def _end(self, error: OutriderError) -> str:
        """The reason that ended the call; empty for one that may not end it."""
        match error:
            case DeadlineExceeded() if self.deadline is not None:
                return "whose time was over"
            case InvalidArgument() if self.is_bad:
                return "refused as bad"
            case ResourceExhausted():
                return REFUSED
            case Unavailable() if "drained" in str(error):
                return "refused by a drained target"
            case Unavailable() if self.pause and SILENCE in str(error):
                return "ended for its reader's silence"
        return "ended by the administrator" if error.code is grpc.StatusCode.ABORTED else ""


class Answer:
    """What a client has received, and the result if it has waited for the end."""

    def __init__(self) -> None:
        self.tokens: list[Any] = []
        self.text = ""
        self.result: Result | None = None
        self.end = ""
        self.num_chunks = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing but the model ended it."""
        return self.result is not None and self.result.finish_reason is not FinishReason.DEADLINE

    def difference(self, reference: Transcript) -> str | None:
        """The first difference from the answer without predictions; a partial answer must be its beginning."""
        if self.is_whole and self.result is not None:
            return Transcript.of(self.result).difference(reference)
        return Transcript.of_part(self.tokens, self.text).difference(reference.cut(len(self.tokens), len(self.text)))


def _sampling(rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {
        "seed": rng.randrange(2**63),
        "temperature": rng.choice((0.0, 0.7, 1.0, 1.3)),
        "top_candidates": rng.randrange(1, 5),
    }
    if rng.random() < 0.5:
        options |= rng.choice(
            (
                {"top_p": 0.9},
                {"top_k": 40, "min_p": 0.02},
                {"repetition_penalty": 1.2},
                {"frequency_penalty": 0.6, "presence_penalty": 0.4},
                {"logit_bias": {20: 2.0, 45: -3.0, 46: float("-inf")}},
            )
        )
    if rng.random() < 0.2:
        options["lark"] = ENDLESS
    return options


def _ending(rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {"ignore_eos": rng.random() < 0.7}
    if rng.random() < 0.3:
        options["stop"] = rng.sample(_STOPS, 2)
    return options
