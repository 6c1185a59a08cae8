"""Embeddings by HTTP are those of the RPC, to the bit, in both encodings."""

import base64

import numpy as np
import openai
import pytest

from tests.gateway.harness.running_gateway import RunningGateway

TEXTS = ["def read(self):", "x"]


def test_embeddings_are_those_of_the_rpc_in_both_encodings(gateway: RunningGateway, client: openai.OpenAI):
    with gateway.rpc() as rpc:
        expected = rpc.embed(TEXTS, dimensions=7)
    for encoding in ("float", "base64"):
        told = gateway.post("/v1/embeddings", {"input": TEXTS, "dimensions": 7, "encoding_format": encoding}).json()
        assert told["usage"] == {"prompt_tokens": expected.prompt_tokens, "total_tokens": expected.prompt_tokens}
        assert isinstance(told["data"][0]["embedding"], str if encoding == "base64" else list)
        vectors = [np.array(_numbers(each["embedding"]), np.float32) for each in told["data"]]
        assert np.array_equal(vectors, [each.values for each in expected.embeddings])
    answer = client.embeddings.create(model="", input=TEXTS, dimensions=7)  # which asks for base64
    for index, each in enumerate(expected.embeddings):
        assert answer.data[index].index == index
        assert np.array_equal(np.array(answer.data[index].embedding, np.float32), each.values)


def _numbers(told: str | list[float]) -> list[float]:
    return told if isinstance(told, list) else [*np.frombuffer(base64.b64decode(told), "<f4")]


def test_every_form_of_input_and_our_own_fields(gateway: RunningGateway):
    with gateway.rpc() as rpc:
        ids = [*rpc.tokenize(TEXTS[0]).token_ids]
        (expected,) = rpc.embed(TEXTS[:1], pooling="mean", normalised=False).embeddings
    for form in (TEXTS[0], TEXTS[:1], ids, [ids]):
        body = {"input": form, "pooling": "mean", "normalised": False, "user": "me", "cache_salt": "s", "priority": 1}
        (told,) = gateway.post("/v1/embeddings", body).json()["data"]
        assert told["embedding"] == [*expected.values]


def test_many_texts_are_those_of_the_rpc_in_their_order(gateway: RunningGateway):
    texts = [f"text {index}" for index in range(130)]
    with gateway.rpc() as rpc:
        expected = rpc.embed(texts, dimensions=3)
    told = gateway.post("/v1/embeddings", {"input": texts, "dimensions": 3}).json()
    assert [each["index"] for each in told["data"]] == [*range(len(texts))]
    assert [each["embedding"] for each in told["data"]] == [[*each.values] for each in expected.embeddings]
    assert told["usage"]["prompt_tokens"] == expected.prompt_tokens


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, "input[0]"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a"] * 100 + [""]}, "input[100]"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": [[1 << 20]]}, "input[0][0]"),
        ({"input": [-1]}, "input[0]"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "a", "pooling": "max"}, "pooling"),
        ({"input": "a", "cache_salt": "x" * 1000}, "cache_salt"),
        ({"input": "a", "temperature": 1}, "temperature"),
        ({"input": "a", "model": "none"}, "model"),
    ],
)
def test_a_bad_field_is_named(gateway: RunningGateway, body: dict[str, object], name: str):
    answer = gateway.post("/v1/embeddings", body)
    assert answer.status_code == (404 if name == "model" else 400)
    assert answer.json()["error"]["param"] == name
