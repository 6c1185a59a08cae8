"""Embeddings: vectors of texts, how to ask for them, and what comes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from outrider.request import check_names, set_options, set_text
from outrider.v1 import generation_pb2

TextToEmbed = str | Sequence[int]
"""Text, or token ids."""
Pooling = Literal["last", "mean", "cls"]
_POOLINGS = {
    "last": generation_pb2.POOLING_LAST,
    "mean": generation_pb2.POOLING_MEAN,
    "cls": generation_pb2.POOLING_CLS,
}
_FIELDS = {
    "model": "model",
    "lora": "lora",
    "pooling": "pooling",
    "normalised": "normalised",
    "dimensions": "dimensions",
    "add_special_tokens": "add_special_tokens",
    "prefix_cache": "cache.prefix",
    "cache_salt": "cache.salt",
    "request_id": "request_id",
    "priority": "priority",
}


class EmbedOptions(TypedDict, total=False):
    """Options of a call that embeds: which tokens' hidden states are pooled, by default the last one's; whether vectors
    are normalised, by default yes; how many of their numbers are kept; else those of the same names in
    `GenerateOptions`.
    """

    model: str | None
    lora: str | None
    pooling: Pooling | None
    normalised: bool | None
    dimensions: int | None
    add_special_tokens: bool | None
    prefix_cache: bool | None
    cache_salt: str | None
    request_id: str | None
    priority: int | None


@dataclass(frozen=True, slots=True)
class Embedding:
    """The vector of one text."""

    values: tuple[float, ...]
    """Each is a float32."""
    prompt_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The vectors of the texts, in their order."""

    embeddings: tuple[Embedding, ...]
    request_id: str
    model: str
    fingerprint: str

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all texts."""
        return sum(each.prompt_tokens for each in self.embeddings)


def build_embed_request(inputs: Sequence[TextToEmbed], options: EmbedOptions) -> generation_pb2.EmbedRequest:
    """The request to embed texts.

    Raises TypeError for an unknown option or a value of the wrong type, and InvalidArgument for a value that the
    protocol cannot carry.
    """
    check_names(options, _FIELDS)
    if isinstance(inputs, str):
        raise TypeError(f"the inputs are texts or lists of token ids, not {inputs!r}")
    request = generation_pb2.EmbedRequest()
    for each in inputs:
        set_text(request.inputs.add(), each)
    set_options(request, options, _FIELDS, {"pooling": _pooling})
    return request


def _pooling(name: str) -> int:
    if name not in _POOLINGS:
        raise ValueError(f"{name!r} is none of {', '.join(_POOLINGS)}")
    return _POOLINGS[name]


def parse_embeddings(message: generation_pb2.EmbedResponse) -> Embeddings:
    """What came of it."""
    return Embeddings(
        embeddings=tuple(
            Embedding(tuple(each.values), each.prompt_tokens, each.cached_tokens) for each in message.embeddings
        ),
        request_id=message.request_id,
        model=message.model,
        fingerprint=message.fingerprint,
    )
