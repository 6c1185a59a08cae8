"""POST /v1/embeddings: embeds texts."""

import base64
import re
import struct
from collections.abc import Sequence as Seq
from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request

from outrider import AsyncClient, Embeddings, InvalidArgument, Pooling, Violation
from services.gateway.generation.problem import Kind, Problem
from services.gateway.generation.validation import parse
from services.gateway.generation.writer import Json
from services.gateway.openai.ignored import IgnoredFields

TokenId = Annotated[int, Field(ge=0, lt=1 << 32)]
_MOST_TEXTS = 2048
_AT_ONCE = 64  # vectors of up to 12,288 numbers in one message of the RPC
_TEXT = re.compile(r"^inputs\[(\d+)\]")
Texts = str | list[str] | list[TokenId] | list[list[TokenId]]


class EmbeddingsRequest(IgnoredFields):
    """The texts to embed, and the options of their vectors."""

    model: str | None = Field(None, description="The model's name. By default the first model.")
    input: Texts = Field(description="A text or token ids, or several of them: up to 2,048.")
    encoding_format: Literal["float", "base64"] | None = Field(
        None,
        description="As numbers, or as float32 in base64, little endian. By default `float`.",
    )
    dimensions: int | None = Field(None, description="Keep only this many numbers of each vector. By default all.")
    pooling: Pooling | None = Field(None, description="The tokens whose hidden states are pooled. By default `last`.")
    normalised: bool | None = Field(None, description="Whether vectors are scaled to length 1. By default true.")
    add_special_tokens: bool | None = None
    prefix_cache: bool | None = None
    cache_salt: str | None = None
    priority: int | None = None


async def embed(client: AsyncClient, _: Request, body: bytes) -> Json:
    """Return a vector of each text; raises OutriderError and Problem."""
    request = parse(EmbeddingsRequest, body)
    answers = await _answers(client, request, _each(request.input))
    vectors = [each.values for answer in answers for each in answer.embeddings]
    encoded = [_encoded(values, request.encoding_format) for values in vectors]
    num_tokens = sum(answer.prompt_tokens for answer in answers)
    return {
        "object": "list",
        "model": answers[0].model,
        "data": [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(encoded)],
        "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
        "system_fingerprint": answers[0].fingerprint,
    }


async def _answers(client: AsyncClient, request: EmbeddingsRequest, texts: Seq[str | Seq[int]]) -> list[Embeddings]:
    """Embed all texts, in several calls: a call of the RPC accepts fewer texts than this API."""
    if len(texts) > _MOST_TEXTS:
        raise Problem(Kind.INVALID, f"input: has {len(texts)} entries, must be 1 to {_MOST_TEXTS}", "input")
    answers: list[Embeddings] = []
    for first in range(0, max(len(texts), 1), _AT_ONCE):
        try:
            answers.append(await _answer(client, request, texts[first : first + _AT_ONCE]))
        except InvalidArgument as error:
            raise InvalidArgument(error.args[0], [_counted_from(first, one) for one in error.violations]) from error
        if answers[-1].fingerprint != answers[0].fingerprint:
            raise Problem(Kind.CHANGED, "the model was replaced while the texts were embedded")
    return answers


async def _answer(client: AsyncClient, request: EmbeddingsRequest, texts: Seq[str | Seq[int]]) -> Embeddings:
    return await client.embed(
        texts,
        model=request.model,
        dimensions=request.dimensions,
        pooling=request.pooling,
        normalised=request.normalised,
        add_special_tokens=request.add_special_tokens,
        prefix_cache=request.prefix_cache,
        cache_salt=request.cache_salt,
        priority=request.priority,
    )


def _counted_from(first: int, violation: Violation) -> Violation:
    """Return a violation with the index of the text among all texts."""
    field = _TEXT.sub(lambda found: f"inputs[{first + int(found[1])}]", violation.field)
    return Violation(field, violation.description)


def _each(texts: Texts) -> Seq[str | Seq[int]]:
    if isinstance(texts, str):
        return (texts,)
    ids = [each for each in texts if isinstance(each, int)]
    return (ids,) if ids else [each for each in texts if not isinstance(each, int)]


def _encoded(values: Seq[float], encoding: str | None) -> str | Seq[float]:
    if encoding != "base64":
        return values
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
