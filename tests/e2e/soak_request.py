"""SoakRequest: one random request of the soak, and whether its client waits for the whole answer."""

import random
from dataclasses import dataclass
from typing import Any

from outrider import AsyncClient, DeadlineExceeded, FinishReason, Result
from tests.e2e.grammars import ENDLESS
from tests.e2e.streams import source_prompt
from tests.e2e.transcript import Transcript

_LONGEST_PROMPT, _LONGEST_ANSWER = 200, 1500  # tokens
_MOST_PREDICTIONS = 15
_STOPS = ("\n\n", "return", "self.", "):\n", '"""', "zzz")


@dataclass(frozen=True, slots=True)
class SoakRequest:
    """A piece of source code, the options that decide how it goes on, and what must not change that."""

    start: int
    length: int
    options: dict[str, Any]
    num_predictions: int  # 0: as many as the server likes
    cancels_at: int | None = None  # tokens
    deadline: float | None = None  # seconds

    @classmethod
    def draw(cls, rng: random.Random) -> "SoakRequest":
        """Most clients wait for the end; some leave, and some are in a hurry."""
        num_tokens = int(_LONGEST_ANSWER ** rng.uniform(0.3, 1.0))  # short ones are as many as long ones
        kind = rng.random()
        return cls(
            start=rng.randrange(200),
            length=rng.randrange(1, _LONGEST_PROMPT),
            options={**_sampling(rng), **_ending(rng), "max_tokens": num_tokens},
            num_predictions=rng.randrange(_MOST_PREDICTIONS + 1),
            cancels_at=rng.randrange(num_tokens) if kind < 0.15 else None,
            deadline=rng.uniform(0.01, 1.0) if kind > 0.85 else None,
        )

    @property
    def prompt(self) -> list[int]:
        """Token ids."""
        return source_prompt(self.start, self.length)

    async def reference(self, client: AsyncClient) -> Transcript:
        """The whole answer, without predictions."""
        return Transcript.of(await client.generate(self.prompt, **self.options, speculation="never"))

    async def send(self, client: AsyncClient) -> "Answer":
        """As much of the answer as this client waits for; raises OutriderError for what it has not asked for."""
        answer = Answer()
        always = {"speculation": "always", "num_predictions": self.num_predictions} if self.num_predictions else {}
        options = {**self.options, **always}
        try:
            async with client.stream(self.prompt, timeout=self.deadline, **options) as stream:
                async for chunk in stream:
                    answer.tokens.extend(chunk.tokens)
                    answer.text += chunk.text
                    if self.cancels_at is not None and len(answer.tokens) > self.cancels_at:
                        return answer
                answer.result = stream.result
        except DeadlineExceeded:
            if self.deadline is None:
                raise
        return answer


class Answer:
    """What a client has received, and the result if it has waited for the end."""

    def __init__(self) -> None:
        self.tokens: list[Any] = []
        self.text = ""
        self.result: Result | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing but the model ended it."""
        return self.result is not None and self.result.finish_reason is not FinishReason.DEADLINE

    def difference(self, reference: Transcript) -> str | None:
        """The first difference from the answer without predictions, of which a part must be the beginning."""
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
