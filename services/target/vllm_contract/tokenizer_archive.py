"""TokenizerArchive: a zip file from which routers build the served tokenizer."""

import asyncio
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

from smg_grpc_proto.generated import common_pb2

from services.target.models.served_model import ServedModel

_CHUNK_BYTES = 64 << 10
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # so that the same tokenizer gives the same bytes


class TokenizerArchive:
    """Made from the served tokenizer at the first request, whatever kind of file the model was read from."""

    def __init__(self) -> None:
        self._made: tuple[bytes, str] | None = None
        self._lock = asyncio.Lock()

    async def chunks(self, model: ServedModel) -> Iterator[common_pb2.GetTokenizerChunk]:
        """The file in pieces; the last one has the SHA-256 of the whole file."""
        async with self._lock:
            if self._made is None:
                self._made = await asyncio.to_thread(_make, model)
        return _cut(*self._made)


def _make(model: ServedModel) -> tuple[bytes, str]:
    """The file and its SHA-256."""
    template = model.chat_template
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **template.special_tokens}
    if named := {name: token for name, token in template.special_tokens.items() if not name.endswith("_token")}:
        settings["extra_special_tokens"] = named
    if template.exists:
        settings["chat_template"] = template.setting
    files = {
        "tokenizer.json": model.tokenizer.description,
        "tokenizer_config.json": json.dumps(settings),
        "generation_config.json": json.dumps({**model.defaults, "eos_token_id": model.eos_token_ids}),
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, _LONG_AGO), text, zipfile.ZIP_DEFLATED)
    return data.getvalue(), hashlib.sha256(data.getvalue()).hexdigest()


def _cut(data: bytes, digest: str) -> Iterator[common_pb2.GetTokenizerChunk]:
    for begin in range(0, len(data), _CHUNK_BYTES):
        end = begin + _CHUNK_BYTES
        yield common_pb2.GetTokenizerChunk(data=data[begin:end], sha256=digest if end >= len(data) else "")
