"""A stream gives the answer in order, chunk by chunk, and its result at the end."""

import math

import pytest

from outrider import Chunk, Dtype, FinishReason, NoSpeculationReason, Tensor
from outrider.response import parse_finish_reason
from outrider.v1 import common_pb2
from tests.harness.servers.client_drivers import PROMPT, WHOLE, Collect, check_whole, with_both_clients
from tests.harness.servers.scripted_server import DRAWN_SEED, EOS, HELD_TEXT, Fault, ScriptedServer, text_of


@with_both_clients
def test_whole_answer(collect: Collect) -> None:
    with ScriptedServer() as server:
        chunks, result = collect(server.address, request_id="mine")
    check_whole(chunks, result)
    assert len(chunks) > 3
    assert result.started.request_id == "mine"
    assert result.started.seed == DRAWN_SEED
    assert result.started.prompt_token_ids == tuple(PROMPT.encode())
    assert (result.finish_reason, result.stop_token_id, result.stop_string) == (FinishReason.STOP_TOKEN, EOS, None)
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (len(PROMPT), len(WHOLE))
    assert (result.timings.prefill, result.timings.first_token) == (1.5, None)
    assert result.speculation.no_speculation_reason is NoSpeculationReason.NO_PREDICTOR
    assert (result.tokens, result.resumed) == ((), 0)


@pytest.mark.parametrize("name", common_pb2.FinishReason.keys()[1:])
def test_every_finish_reason_of_the_protocol_has_its_own(name: str) -> None:
    assert f"FINISH_REASON_{parse_finish_reason(common_pb2.FinishReason.Value(name)).name}" == name


@with_both_clients
def test_records_align_with_ids_across_a_resume(collect: Collect) -> None:
    with ScriptedServer(Fault(at=5)) as server:
        chunks, result = collect(server.address, logprobs=True)
    assert result.resumed == 1
    assert [token.id for token in result.tokens] == WHOLE
    assert all([token.id for token in chunk.tokens] == list(chunk.token_ids) for chunk in chunks)
    first = result.tokens[0]
    assert first.raw_logprob == first.candidates[0].raw_logprob != 0
    assert first.processed_logprob is None
    assert first.candidates[0].processed_logprob == float("-inf")


@with_both_clients
@pytest.mark.parametrize("cut", [0, 5])
def test_the_prompt_s_records_come_once_across_a_resume(collect: Collect, cut: int) -> None:
    with ScriptedServer(Fault(at=cut)) as server:
        _, result = collect(server.address, prompt_logprobs=True)
    assert result.resumed == 1
    assert [token.id for token in result.prompt_records] == list(PROMPT.encode())


def test_a_tensor_gives_its_numbers() -> None:
    tensor = Tensor((2, 2), Dtype.FLOAT32, bytes.fromhex("0000803f000000c00000c07f000080ff"))
    values = tensor.values()
    assert values[:2] == (1.0, -2.0)
    assert math.isnan(values[2])
    assert values[3] == -math.inf
    with pytest.raises(ValueError, match="does not know"):
        Tensor((1,), Dtype.UNKNOWN, b"\0\0").values()


@with_both_clients
@pytest.mark.parametrize("faults", [[], [Fault("end")], [Fault(at=5), Fault("end")]], ids=len)
def test_the_last_text_comes_with_the_end_and_once(collect: Collect, faults: list[Fault]) -> None:
    with ScriptedServer(*faults) as server:
        chunks, result = collect(server.address, time_limit=60.0)
    assert chunks[-1] == Chunk(HELD_TEXT, (), (), ())
    assert "".join(chunk.text for chunk in chunks) == result.text == text_of(WHOLE, is_whole=True) + HELD_TEXT
    assert list(result.token_ids) == WHOLE
    assert (result.finish_reason, result.stop_token_id) == (FinishReason.TIME_LIMIT, None)
