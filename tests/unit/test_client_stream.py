"""A stream gives the answer in order, chunk by chunk, and its result at the end."""

from outrider import FinishReason, NoSpeculationReason
from tests.client_drivers import PROMPT, WHOLE, Collect, check_whole, with_both_clients
from tests.scripted_server import DRAWN_SEED, EOS, Fault, ScriptedServer


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
