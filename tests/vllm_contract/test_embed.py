"""The contract's Embed: the vector of our own, under its field names."""

from typing import Any

import grpc
import pytest
from smg_grpc_proto.generated import vllm_engine_pb2

from outrider.v1 import common_pb2, generation_pb2
from tests.harness.servers.server import RunningTarget, wait_until
from tests.vllm_contract.asking import PROMPT, stub_of


def embed(target: RunningTarget, ids: list[int] = PROMPT, **fields: Any) -> vllm_engine_pb2.EmbedResponse:
    tokenized = vllm_engine_pb2.TokenizedInput(input_ids=ids)
    request = vllm_engine_pb2.EmbedRequest(tokenized=tokenized, **fields)
    response: vllm_engine_pb2.EmbedResponse = stub_of(target).Embed(request, timeout=60)
    return response


def test_the_vector_is_that_of_our_own_rpc(target: RunningTarget) -> None:
    text = generation_pb2.TextToEmbed(token_ids=common_pb2.TokenIds(ids=PROMPT))
    (expected,) = target.stub.Embed(generation_pb2.EmbedRequest(inputs=[text]), timeout=60).embeddings
    answer = embed(target, request_id="some")
    assert [*answer.embedding] == [*expected.values]
    assert (answer.prompt_tokens, answer.embedding_dim) == (len(PROMPT), len(expected.values))
    assert abs(sum(value**2 for value in answer.embedding) - 1) < 1e-5
    assert embed(target, PROMPT[:-1]).embedding != answer.embedding


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        ([], "tokenized.input_ids is 0 tokens long; allowed: 1 to "),
        ([1] * 100_000, "tokenized.input_ids is 100000 tokens long; allowed: 1 to "),
        ([1, 4_000_000], "tokenized.input_ids[1] is 4000000; allowed: 0 to "),
    ],
)
def test_bad_tokens_are_refused_by_the_contracts_names(target: RunningTarget, ids: list[int], problem: str) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        embed(target, ids)
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert failure.value.details().startswith(problem)


def test_a_vector_that_is_not_wanted_any_more_is_not_waited_for(target: RunningTarget) -> None:
    tokenized = vllm_engine_pb2.TokenizedInput(input_ids=PROMPT)
    with target.held():  # the engine computes nothing meanwhile
        request = vllm_engine_pb2.EmbedRequest(tokenized=tokenized, request_id="some")
        call = stub_of(target).Embed.future(request, timeout=60)
        wait_until(lambda: target.model.statistics.num_live == 1)
        stub_of(target).Abort(vllm_engine_pb2.AbortRequest(request_ids=["some"]), timeout=20)
        assert call.code() is grpc.StatusCode.ABORTED
    assert embed(target).embedding
