"""Scores: log-probabilities of texts after a prompt, the request for them, and its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from outrider.request import Prompt, check_names, set_options, set_prompt, set_text
from outrider.v1 import generation_pb2

TextToScore = str | Sequence[int]
"""Text, or token ids."""
_FIELDS = {
    "model": "model",
    "lora": "lora",
    "add_special_tokens": "prompt.add_special_tokens",
    "prefix_cache": "cache.prefix",
    "cache_salt": "cache.salt",
    "request_id": "request_id",
    "priority": "priority",
}


class ScoreOptions(TypedDict, total=False):
    """Options of a call that scores; those of the same names in `GenerateOptions`."""

    model: str | None
    lora: str | None
    add_special_tokens: bool | None
    prefix_cache: bool | None
    cache_salt: str | None
    request_id: str | None
    priority: int | None


@dataclass(frozen=True, slots=True)
class TextScore:
    """The log-probability of one text after the prompt; its tuples have one entry per token."""

    logprob: float
    """Natural log of the probability of all of it: the sum of those of its tokens."""
    token_ids: tuple[int, ...]
    token_logprobs: tuple[float, ...]
    token_ranks: tuple[int, ...]
    """Among all tokens by probability, from 1."""

    @property
    def is_greedy(self) -> bool:
        """Whether greedy decoding writes this text."""
        return all(rank == 1 for rank in self.token_ranks)


@dataclass(frozen=True, slots=True)
class Scores:
    """How likely the texts are, in their order."""

    scores: tuple[TextScore, ...]
    request_id: str
    model: str
    fingerprint: str
    prompt_tokens: int
    cached_tokens: int

    @property
    def best(self) -> int:
        """Index of the likeliest text, the first one among equals."""
        return max(range(len(self.scores)), key=lambda index: self.scores[index].logprob)


def build_score_request(
    prompt: Prompt, choices: Sequence[TextToScore], options: ScoreOptions
) -> generation_pb2.ScoreRequest:
    """The request to score texts.

    Raises TypeError for an unknown option or a value of the wrong type, and InvalidArgument for a value that the
    protocol cannot carry.
    """
    check_names(options, _FIELDS)
    if isinstance(choices, str):
        raise TypeError(f"the choices are texts or lists of token ids, not {choices!r}")
    request = generation_pb2.ScoreRequest()
    set_prompt(request, prompt)
    for choice in choices:
        set_text(request.choices.add(), choice)
    set_options(request, options, _FIELDS)
    return request


def parse_scores(message: generation_pb2.ScoreResponse) -> Scores:
    """What came of it."""
    return Scores(
        scores=tuple(
            TextScore(score.logprob, tuple(score.token_ids), tuple(score.token_logprobs), tuple(score.token_ranks))
            for score in message.scores
        ),
        request_id=message.request_id,
        model=message.model,
        fingerprint=message.fingerprint,
        prompt_tokens=message.prompt_tokens,
        cached_tokens=message.cached_tokens,
    )
