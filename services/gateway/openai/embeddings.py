"""POST /v1/embeddings: vectors of texts."""

import base64
import struct
from collections.abc import Sequence as Seq
from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request

from outrider import AsyncClient, Pooling
from services.gateway.generation.validation import parse
from services.gateway.generation.writer import Json
from services.gateway.openai.ignored import IgnoredFields

TokenId = Annotated[int, Field(ge=0, lt=1 << 32)]
Texts = str | list[str] | list[TokenId] | list[list[TokenId]]


class EmbeddingsRequest(IgnoredFields):
    """Texts to embed."""

    model: str | None = Field(None, description="The model's name; without it, the first that is served.")
    input: Texts = Field(description="A text or token ids, or several of them.")
    encoding_format: Literal["float", "base64"] | None = Field(
        None,
        description="As numbers, or as float32 in base64, little endian. By default `float`.",
    )
    dimensions: int | None = Field(None, description="How many numbers of each vector are kept. By default all.")
    pooling: Pooling | None = Field(None, description="Whose hidden states are pooled. By default `last`.")
    normalised: bool | None = Field(None, description="Whether vectors have the length 1. By default they do.")
    add_special_tokens: bool | None = None
    prefix_cache: bool | None = None
    cache_salt: str | None = None
    priority: int | None = None


async def embed(client: AsyncClient, _: Request, body: bytes) -> Json:
    """A vector of each text; raises OutriderError and Problem."""
    request = parse(EmbeddingsRequest, body)
    answer = await client.embed(
        _each(request.input),
        model=request.model,
        dimensions=request.dimensions,
        pooling=request.pooling,
        normalised=request.normalised,
        add_special_tokens=request.add_special_tokens,
        prefix_cache=request.prefix_cache,
        cache_salt=request.cache_salt,
        priority=request.priority,
    )
    told = [_encoded(each.values, request.encoding_format) for each in answer.embeddings]
    return {
        "object": "list",
        "model": answer.model,
        "data": [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(told)],
        "usage": {"prompt_tokens": answer.prompt_tokens, "total_tokens": answer.prompt_tokens},
        "system_fingerprint": answer.fingerprint,
    }


def _each(texts: Texts) -> Seq[str | Seq[int]]:
    if isinstance(texts, str):
        return (texts,)
    ids = [each for each in texts if isinstance(each, int)]
    return (ids,) if ids else [each for each in texts if not isinstance(each, int)]


def _encoded(values: Seq[float], encoding: str | None) -> str | Seq[float]:
    if encoding != "base64":
        return values
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
