"""A model whose layers carry states, over gRPC: the same bytes with predictions, in company and after a cut."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import generation_pb2
from services.engine.config import ConfigError
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import RunningDraft
from tests.rpc.harness.requests import Streamed, continued, stream, stream_request

SAMPLING = {"seed": 5, "temperature": 0.7}
REPEATED = [*range(40, 60)] * 4
SCRIPTS: dict[str, tuple[str, Seq[int]]] = {}
ALWAYS = {"mode": "SPECULATION_MODE_ALWAYS", "num_predictions": 6}


@pytest.fixture(scope="module")
def folder() -> Path:
    return further_checkpoint(Further.QWEN3_5)


@pytest.fixture(scope="module")
def target(folder: Path) -> Iterator[RunningTarget]:
    predictor = ScriptedPredictor(SCRIPTS.get, vocab_size=512)
    with target_server(folder, predictor=predictor) as running:
        yield running
        running.assert_all_free()


def asked(target: RunningTarget, prompt: Any = REPEATED, **fields: Any) -> Streamed:
    fields = {"sampling": SAMPLING, "output": {"logprobs": True}, "stop": {"max_tokens": 40}, **fields}
    return stream(target, stream_request(prompt, **fields))


def predicted(target: RunningTarget, whole: Streamed, **fields: Any) -> Streamed:
    """The same answer with predictions of all its tokens, some of them wrong, which must be accepted and rejected."""
    SCRIPTS["predicted"] = ("mixed", whole.token_ids)
    answer = asked(target, request_id="predicted", speculation=ALWAYS, **fields)
    assert 0 < answer.finished.speculation.accepted < answer.finished.speculation.predicted
    return answer


def bits(answer: Streamed) -> tuple[object, ...]:
    records = [(record.id, record.raw_logprob, record.processed_logprob) for record in answer.records]
    return answer.text, answer.token_ids, records, answer.reason


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_predictions_change_no_byte(target: RunningTarget, temperature: float) -> None:
    sampling = {**SAMPLING, "temperature": temperature}
    plain = asked(target, sampling=sampling)
    assert bits(predicted(target, plain, sampling=sampling)) == bits(plain)


@pytest.mark.parametrize("kind", [Further.QWEN3_5_MOE, Further.QWEN3_NEXT])
def test_predictions_change_no_byte_of_a_mixture(kind: Further) -> None:
    predictor = ScriptedPredictor(SCRIPTS.get, vocab_size=512)
    with target_server(further_checkpoint(kind), predictor=predictor) as running:
        plain = asked(running)
        assert bits(predicted(running, plain)) == bits(plain)
        running.assert_all_free()


def test_a_second_request_goes_on_from_a_kept_state(target: RunningTarget) -> None:
    prompt = [*range(100, 170)]
    first, second = asked(target, prompt), asked(target, prompt)
    assert bits(first) == bits(second)
    assert (first.started.cached_tokens, second.started.cached_tokens) == (0, 64)


def test_an_answer_continues_after_every_token(target: RunningTarget) -> None:
    output = {"prompt_token_ids": True}
    request = stream_request(REPEATED, sampling=SAMPLING, stop={"max_tokens": 12}, output=output)
    whole = stream(target, request)
    for count in range(1, len(whole.token_ids)):
        assert stream(target, continued(request, whole, count)).token_ids == whole.token_ids[count:]


def test_withdrawn_tokens_are_computed_again(target: RunningTarget) -> None:
    """A banned string takes back what its state has seen."""
    stop = {"max_tokens": 40, "ignore_eos": True}
    plain = asked(target, stop=stop)
    banned = plain.text[8:12]
    sampling = {**SAMPLING, "banned_strings": [banned]}
    answer = asked(target, stop=stop, sampling=sampling)
    assert banned in plain.text
    assert banned not in answer.text
    assert bits(predicted(target, answer, stop=stop, sampling=sampling)) == bits(answer)


def test_a_negative_prompt_has_a_state_of_its_own(target: RunningTarget) -> None:
    guidance = {"scale": 1.5, "negative_prompt": {"token_ids": {"ids": [7, 8, 9, 10]}}}
    plain = asked(target, guidance=guidance)
    assert bits(predicted(target, plain, guidance=guidance)) == bits(plain) != bits(asked(target))


def test_a_draft_of_another_architecture_predicts(folder: Path) -> None:
    draft = RunningDraft(random_checkpoint(Kind.LLAMA))
    try:
        with target_server(folder, drafts=[draft.address]) as alone_and_drafted:
            alone = asked(alone_and_drafted, speculation={"mode": "SPECULATION_MODE_NEVER"})
            drafted = asked(alone_and_drafted, speculation=ALWAYS)
        assert bits(drafted) == bits(alone)
        assert drafted.finished.speculation.predicted > 0
    finally:
        draft.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"kv_offload_memory": 1 << 20},
            "kv_offload_memory is 1048576; for Qwen3_5ForCausalLM, whose layers carry states, it must not be set",
        ),
        ({"session_blocks": 3}, "session_blocks is 3; for Qwen3_5ForCausalLM, whose"),
    ],
)
def test_settings_that_need_cached_states_are_refused(folder: Path, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said), target_server(folder, **settings):
        pass


def test_a_session_is_refused(target: RunningTarget) -> None:
    request = generation_pb2.CreateSessionRequest(prompt={"token_ids": {"ids": REPEATED}})
    with pytest.raises(grpc.RpcError) as refused:
        target.stub.CreateSession(request, timeout=60)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
