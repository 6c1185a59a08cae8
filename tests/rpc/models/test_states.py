"""A model whose layers carry states, over gRPC: the same bytes with predictions, in company and after a cut."""

import re
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


@pytest.fixture(params=["memory", "disk"])
def offload(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Room for all states of the tests, in a server whose cache holds little."""
    room = 64 << 20
    if request.param == "memory":
        return {"kv_offload_memory": room}
    return {"kv_offload_dir": tmp_path, "kv_offload_disk": room}


def test_evicted_blocks_are_found_with_the_state_after_them(folder: Path, offload: dict[str, Any]) -> None:
    prompt = [*range(100, 170)]
    with target_server(folder, max_sequences=1, kv_blocks=8, **offload) as target:
        plain = asked(target, prompt, cache={"prefix": False})
        for found in (0, 64, 64):
            answer = asked(target, prompt)
            assert bits(answer) == bits(plain)
            assert answer.started.cached_tokens == found
            for start in range(200, 206):
                asked(target, [*range(start, start + 120)], stop={"max_tokens": 1})
        target.assert_all_free()
    if "kv_offload_dir" in offload:
        with target_server(folder, max_sequences=1, kv_blocks=8, **offload) as restarted:
            answer = asked(restarted, prompt)
            assert bits(answer) == bits(plain)
            assert answer.started.cached_tokens == 64


def test_an_offload_has_room_for_a_block_and_its_state(folder: Path) -> None:
    said = r"^kv_offload_memory is 100000 bytes; it must be at least (\d+), one KV block and the states after it$"
    with pytest.raises(ConfigError) as refused, target_server(folder, kv_offload_memory=100_000):
        pass
    least = re.match(said, str(refused.value))
    assert least is not None
    with target_server(folder, kv_offload_memory=int(least[1])) as target:
        assert target.engine.offload is not None
        assert target.engine.offload.store.num_slots * target.engine.model.decoder.block_bytes == int(least[1])


def test_a_session_holds_its_blocks_and_the_state_after_them(folder: Path) -> None:
    """However many other prompts keep states, and after the cache was cleared, with the bytes of a plain prompt."""
    prefix, more = [*range(100, 170)], [7, 8, 9]
    with target_server(folder, max_sequences=2) as target:
        plain = asked(target, [*prefix, *more], cache={"prefix": False})
        target.stub.CreateSession(generation_pb2.CreateSessionRequest(name="a", prompt={"token_ids": {"ids": prefix}}))
        for start in range(200, 220):  # more than there are checkpoints
            asked(target, [*range(start, start + 40)], stop={"max_tokens": 1})
        for _ in range(2):
            answer = asked(target, more, session="a")
            assert bits(answer) == bits(plain)
            assert answer.started.cached_tokens == 64
            target.on_engine_thread(target.engine.blocks.forget)
        target.stub.DeleteSession(generation_pb2.DeleteSessionRequest(name="a"))
        target.assert_all_free()


def test_sessions_are_as_many_as_a_part_of_the_kept_states(folder: Path) -> None:
    with target_server(folder, max_sequences=2) as target:  # which keeps eight states for later prompts
        codes = [create(target, name=name) for name in ("a", "b", "c")]
    assert codes == [grpc.StatusCode.OK, grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED]


def create(target: RunningTarget, name: str) -> grpc.StatusCode:
    request = generation_pb2.CreateSessionRequest(name=name, prompt={"token_ids": {"ids": REPEATED}})
    try:
        target.stub.CreateSession(request, timeout=60)
    except grpc.RpcError as refused:
        return refused.code()
    return grpc.StatusCode.OK
