"""Compressed bodies are read within the bounds of all bodies."""

import gzip
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator

import httpx2
import pytest

from services.gateway.generation.problem import Kind, Problem
from services.gateway.web.content_encoding import decoded
from tests.gateway.harness.running_gateway import RunningGateway

ASKED = json.dumps({"prompt": "def read(self, path):"}).encode()
MOST = 100_000


def post(gateway: RunningGateway, body: bytes, encoding: str) -> httpx2.Response:
    headers = {"content-type": "application/json", "content-encoding": encoding}
    return httpx2.post(f"{gateway.url}/tokenize", content=body, headers=headers, timeout=60)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(ASKED)),
        ("X-GZIP", gzip.compress(ASKED)),
        ("deflate", zlib.compress(ASKED)),
        ("identity", ASKED),
        ("", ASKED),
    ],
    ids=["gzip", "old gzip", "deflate", "identity", "none"],  # a compressed body contains the time
)
def test_a_compressed_body_is_read(gateway: RunningGateway, encoding: str, body: bytes):
    plain = gateway.post("/tokenize", json.loads(ASKED)).json()
    assert post(gateway, body, encoding).json() == plain


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "zstd"])
def test_another_encoding_is_refused(encoding: str):
    with RunningGateway("127.0.0.1:1") as gateway:
        answer = post(gateway, ASKED, encoding)
    assert answer.status_code == 415
    assert answer.json()["error"]["param"] == "Content-Encoding"
    assert "allowed: gzip, deflate, identity" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [ASKED, gzip.compress(ASKED)[:-1], gzip.compress(ASKED) + b"a", b""],
    ids=["plain", "cut", "longer", "empty"],
)
def test_a_body_that_is_not_compressed_is_refused(body: bytes):
    with RunningGateway("127.0.0.1:1") as gateway:
        answer = post(gateway, body, "gzip")
    assert answer.status_code == 400
    assert "not encoded as gzip" in answer.json()["error"]["message"]


@pytest.mark.parametrize("size", [MOST, 10 << 20])
def test_a_body_that_becomes_too_large_is_refused(size: int):
    with RunningGateway("127.0.0.1:1", max_body=MOST) as gateway:
        assert post(gateway, gzip.compress(b" " * (size + 1)), "gzip").status_code == 413
        assert post(gateway, b"\x1f\x8b" + b"a" * MOST, "gzip").status_code in (400, 413)


async def test_a_bomb_is_never_decompressed_whole():
    bomb = zlib.compress(b"a" * (20 << 20), 9)

    async def parts() -> AsyncIterator[bytes]:
        yield bomb

    tracemalloc.start()
    part = await anext(decoded(parts(), "deflate"))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0 < len(part) <= most < 2 << 20


async def test_bytes_after_the_end_are_not_collected():
    async def parts() -> AsyncIterator[bytes]:
        yield zlib.compress(b"a") + b"b"
        raise AssertionError

    with pytest.raises(Problem) as refused:
        _ = [part async for part in decoded(parts(), "deflate")]
    assert refused.value.kind is Kind.INVALID
