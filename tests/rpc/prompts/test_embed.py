"""Embeddings over gRPC: what is made of hidden states, the same bits whatever the others are, and the same limits."""

from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

import outrider
from outrider.v1 import generation_pb2
from services.service.errors import InternalError
from services.service.server_config import ServerConfig
from services.target.api.embedding import to_vector
from tests.harness.models.checkpoints import CONTEXT_LENGTH, VOCAB_SIZE
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.commands import outrider_run
from tests.rpc.harness.requests import PROMPT, violations

TEXTS = ("    return argv\n", PROMPT, "x")
LAST, MEAN, CLS = generation_pb2.POOLING_LAST, generation_pb2.POOLING_MEAN, generation_pb2.POOLING_CLS
FEW = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, max_streams_per_caller=3)
BAD: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "an adapter that there is not": ({"lora": "other"}, {"lora": "'other' is not loaded; allowed: none"}),
    "no texts": ({"inputs": []}, {"inputs": "has 0 entries; allowed: 1 to "}),
    "too many": ({"inputs": [{"text": "a"}] * 257}, {"inputs": "has 257 entries; allowed: 1 to "}),
    "no form": ({"inputs": [{"text": "a"}, {}]}, {"inputs[1]": "is not set; allowed: text or token_ids"}),
    "no text": ({"inputs": [{"text": ""}]}, {"inputs[0].text": "is empty; allowed: at least one character"}),
    "no ids": ({"inputs": [{"token_ids": {}}]}, {"inputs[0].token_ids.ids": "is empty; allowed: at least one token"}),
    "no token": (
        {"inputs": [{"token_ids": {"ids": [0, VOCAB_SIZE]}}]},
        {"inputs[0].token_ids.ids[1]": f"is {VOCAB_SIZE}; allowed: 0 to {VOCAB_SIZE - 1}"},
    ),
    "beyond the context": (
        {"inputs": [{"token_ids": {"ids": [5] * (CONTEXT_LENGTH + 1)}}]},
        {"inputs[0].token_ids.ids": f"is {CONTEXT_LENGTH + 1} tokens long; allowed: at most {CONTEXT_LENGTH}"},
    ),
    "a pooling": ({"pooling": 9}, {"pooling": "is 9; allowed: POOLING_UNSPECIFIED, POOLING_LAST, POOLING_MEAN"}),
    "dimensions": ({"dimensions": 0}, {"dimensions": "is 0; allowed: at least 1, at most "}),
    "a cache's name": ({"cache": {"salt": "x" * 1000}}, {"cache.salt": "has 1000 bytes; allowed: at most 128 bytes"}),
    "a name": ({"request_id": ""}, {"request_id": "has 0 bytes; allowed: 1 to 128 bytes of printable characters"}),
    "a priority": ({"priority": 11}, {"priority": "is 11; allowed: at least -10, at most 10"}),
    "a model": ({"model": "none"}, {"model": "'none' is not served here"}),
}
NEVER_BAD = {"normalised", "add_special_tokens"}  # both of their values are good


def embed_request(**fields: Any) -> generation_pb2.EmbedRequest:
    return generation_pb2.EmbedRequest(**{"inputs": [{"text": text} for text in TEXTS], **fields})


def vectors(target: RunningTarget, **fields: Any) -> NDArray[np.float32]:
    """One for each text.  # [texts, dimensions]"""
    answer = target.stub.Embed(embed_request(**fields), timeout=60)
    return np.array([each.values for each in answer.embeddings], np.float32)


def reference(states: NDArray[np.float32], dimensions: int) -> NDArray[np.float32]:
    cut = states[:, :dimensions].astype(np.float64)
    return (cut / np.linalg.norm(cut, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("pooling", [LAST, MEAN, CLS])
def test_vectors_are_cut_and_then_normalised(target: RunningTarget, pooling: Any) -> None:
    states = vectors(target, pooling=pooling, normalised=False)
    for fields in ({}, {"dimensions": 5}):
        expected = reference(states, fields.get("dimensions", states.shape[1]))
        assert np.allclose(vectors(target, pooling=pooling, **fields), expected, rtol=1e-6, atol=1e-7)
    assert np.array_equal(vectors(target, pooling=pooling, normalised=False, dimensions=5), states[:, :5])


def test_default_vectors_are_of_the_last_token_and_normalised(target: RunningTarget) -> None:
    default = vectors(target)
    assert np.array_equal(default, vectors(target, pooling=LAST, normalised=True))
    assert not np.array_equal(default, vectors(target, pooling=MEAN))


def test_a_texts_vector_does_not_depend_on_others_or_the_cache(target: RunningTarget) -> None:
    together = {pooling: vectors(target, pooling=pooling) for pooling in (LAST, MEAN, CLS)}
    for pooling, expected in together.items():
        for cache in ({"prefix": False}, {"salt": "a new one"}, {"salt": "a new one"}):
            assert np.array_equal(vectors(target, pooling=pooling, cache=cache), expected)
        for text, one in zip(TEXTS, expected, strict=True):
            assert np.array_equal(vectors(target, pooling=pooling, inputs=[{"text": text}]), [one])


def test_ids_are_taken_as_they_are_and_tokens_are_counted(target: RunningTarget) -> None:
    for add in (True, False):
        told = target.stub.Tokenize(generation_pb2.TokenizeRequest(text=PROMPT, add_special_tokens=add))
        ids = [*told.token_ids]
        text = embed_request(inputs=[{"text": PROMPT}], add_special_tokens=add, request_id="one")
        answer = target.stub.Embed(text, timeout=60)
        assert (answer.request_id, answer.embeddings[0].prompt_tokens) == ("one", len(ids))
        by_ids = vectors(target, inputs=[{"token_ids": {"ids": ids}}])
        assert np.array_equal(by_ids, [np.array(answer.embeddings[0].values, np.float32)])
    info = target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest())
    assert (answer.model, answer.fingerprint) == (info.name, info.fingerprint)


def test_the_cache_serves_the_last_token_alone(target: RunningTarget) -> None:
    long = {"inputs": [{"text": 9 * PROMPT}], "cache": {"salt": "long"}}
    cold, warm, mean = [
        target.stub.Embed(embed_request(pooling=pooling, **long), timeout=60).embeddings[0]
        for pooling in (LAST, LAST, MEAN)
    ]
    assert cold.cached_tokens == mean.cached_tokens == 0 < warm.cached_tokens < warm.prompt_tokens
    assert list(warm.values) == list(cold.values)


def test_a_text_may_fill_the_context(target: RunningTarget) -> None:
    full = [{"token_ids": {"ids": [7] * CONTEXT_LENGTH}}]
    assert np.isfinite(vectors(target, inputs=full)).all()


@pytest.mark.parametrize("name", BAD)
def test_bad_fields_are_named(target: RunningTarget, name: str) -> None:
    fields, expected = BAD[name]
    with pytest.raises(grpc.RpcError) as failure:
        target.stub.Embed(embed_request(**fields), timeout=60)
    found = violations(failure.value)
    assert found.keys() == expected.keys()
    assert all(description in found[field] for field, description in expected.items())


def test_every_field_has_a_bad_value() -> None:
    told = {field.split(".")[0].split("[")[0] for _, expected in BAD.values() for field in expected}
    assert told == {field.name for field in generation_pb2.EmbedRequest.DESCRIPTOR.fields} - NEVER_BAD


def test_cancelling_and_the_deadline_free_all(model: Any) -> None:
    with target_server(model, prefill_chunk=1) as slow:
        request = embed_request(inputs=[{"token_ids": {"ids": [5, 6] * 200}}] * 2, pooling=MEAN)
        call = slow.stub.Embed.future(request, timeout=60)
        wait_until(lambda: slow.on_engine_thread(lambda: bool(slow.engine.scheduler.running)))
        call.cancel()
        slow.assert_all_free()
        with pytest.raises(grpc.RpcError) as failure:
            slow.stub.Embed(request, timeout=0.05)
        assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        slow.assert_all_free()


def test_texts_count_as_requests_and_may_exceed_max_sequences(model: Any) -> None:
    with target_server(model, max_sequences=2, max_rows=64, server=FEW) as target:
        with pytest.raises(grpc.RpcError) as refusal:
            vectors(target, inputs=[{"text": "a"}] * 4)
        assert violations(refusal.value) == {"inputs": "has 4 entries; allowed: 1 to 3"}
        assert len(vectors(target)) == 3
        target.assert_all_free()


async def test_the_clients_give_all_of_it(target: RunningTarget) -> None:
    options: outrider.EmbedOptions = {"pooling": "mean", "dimensions": 3, "normalised": False, "request_id": "it"}
    expected = vectors(target, pooling=MEAN, dimensions=3, normalised=False)
    with outrider.Client(target.address) as client:
        answer = client.embed(TEXTS, **options)
        with pytest.raises(outrider.InvalidArgument, match="inputs"):
            client.embed([])
    async with outrider.AsyncClient(target.address) as other:
        assert (await other.embed(TEXTS, **options)).embeddings == answer.embeddings
    assert answer.request_id == "it"
    assert np.array_equal([one.values for one in answer.embeddings], expected)


def test_the_command_prints_them(target: RunningTarget) -> None:
    done = outrider_run("embed", *TEXTS, "--dimensions", "4", "--pooling", "cls", "--address", target.address)
    assert done.returncode == 0, done.stderr
    told = np.array([line.strip("[]").split(",") for line in done.stdout.splitlines()], np.float32)
    assert np.array_equal(told, vectors(target, dimensions=4, pooling=CLS))
    refused = outrider_run("embed", "", "--address", target.address)
    assert (refused.returncode, refused.stderr) == (1, "inputs[0].text is empty; allowed: at least one character\n")


def test_a_zero_vector_stays_zero_and_nan_is_refused() -> None:
    assert to_vector(np.zeros(3, np.float32), 2, is_normalised=True).tolist() == [0.0, 0.0]
    with pytest.raises(InternalError, match="no numbers"):
        to_vector(np.array([1.0, np.nan], np.float32), 2, is_normalised=True)
