"""Sessions over gRPC: the same bytes as without one, names, times, quotas, and what becomes of their blocks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from outrider.v1 import generation_pb2
from services.target.sessions.sessions import Sessions
from tests.harness.models.checkpoints import CONTEXT_LENGTH, VOCAB_SIZE
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.requests import PROMPT, as_unary, continued, detail, stream, stream_request, violations

LONG = [*range(30, 130)]  # three blocks of the cache and a bit
MORE = [7, 8, 9]
OUTPUT = {"prompt_token_ids": True, "logprobs": True}
BAD: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "no prompt": ({"prompt": None}, {"prompt": "is not set; allowed: text, token_ids or chat"}),
    "a prompt to heal": ({"prompt": {"text": "a", "heal": True}}, {"prompt.heal": "is true; allowed: false"}),
    "no token": (
        {"prompt": {"token_ids": {"ids": [VOCAB_SIZE]}}},
        {"prompt.token_ids.ids[0]": f"is {VOCAB_SIZE}; allowed: 0 to {VOCAB_SIZE - 1}"},
    ),
    "beyond the context": (
        {"prompt": {"token_ids": {"ids": [5] * CONTEXT_LENGTH}}},
        {"prompt.token_ids.ids": f"allowed: at most {CONTEXT_LENGTH - 1}, so that the context has room for one more"},
    ),
    "no name": ({"name": ""}, {"name": "has 0 bytes; allowed: 1 to 128 bytes of printable characters"}),
    "a long name": ({"name": 129 * "a"}, {"name": "has 129 bytes"}),
    "no time": ({"ttl_seconds": 0.5}, {"ttl_seconds": "is 0.5; allowed: at least 1, at most 86400"}),
    "a time that is none": ({"ttl_seconds": float("nan")}, {"ttl_seconds": "is nan"}),
    "a salt": ({"salt": 129 * "a"}, {"salt": "has 129 bytes; allowed: at most 128 bytes"}),
    "a request's name": ({"request_id": ""}, {"request_id": "has 0 bytes"}),
    "a priority": ({"priority": 11}, {"priority": "is 11; allowed: at least -10, at most 10"}),
    "a model": ({"model": "none"}, {"model": "'none' is not served here"}),
    "all at once": ({"ttl_seconds": -1, "name": ""}, {"ttl_seconds": "is -1", "name": "has 0 bytes"}),
}
NEVER_BAD = {"parent", "token_ids"}  # the one is found or not, the other true or false


@pytest.fixture(autouse=True)
def _none_is_left(shared_target: RunningTarget) -> Iterator[None]:
    yield
    for session in shared_target.stub.ListSessions(generation_pb2.ListSessionsRequest()).sessions:
        delete(shared_target, session.name)
    shared_target.assert_all_free()


@pytest.fixture
def target(shared_target: RunningTarget) -> RunningTarget:
    """The shared server, whose sessions end with the test."""
    return shared_target


def create(target: RunningTarget, beginning: str | list[int] | None = LONG, **fields: Any) -> generation_pb2.Session:
    if isinstance(beginning, list):
        fields["prompt"] = {"token_ids": {"ids": beginning}}
    elif beginning is not None:
        fields["prompt"] = {"text": beginning}
    return target.stub.CreateSession(generation_pb2.CreateSessionRequest(**fields), timeout=60).session


def delete(target: RunningTarget, name: str) -> None:
    target.stub.DeleteSession(generation_pb2.DeleteSessionRequest(name=name))


def get(target: RunningTarget, name: str, **fields: Any) -> generation_pb2.Session:
    return target.stub.GetSession(generation_pb2.GetSessionRequest(name=name, **fields)).session


def code_of(failure: pytest.ExceptionInfo[grpc.RpcError]) -> tuple[grpc.StatusCode, str]:
    return failure.value.code(), detail(failure.value, error_details_pb2.ErrorInfo).reason


def sessions_of(target: RunningTarget) -> Sessions:
    assert target.model.serving is not None
    return target.model.serving.sessions


def test_a_session_reports_its_tokens_and_blocks(target: RunningTarget) -> None:
    made = create(target, name="mine", ttl_seconds=20, token_ids=True, request_id="making", priority=1)
    assert (made.name, made.tokens, made.blocks, made.ttl_seconds) == ("mine", 100, 3, 20)
    assert list(made.token_ids) == LONG
    assert 0 < made.seconds_left <= 20
    info = target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest())
    assert made.fingerprint == info.fingerprint
    assert not get(target, "mine").token_ids
    assert list(get(target, "mine", token_ids=True).token_ids) == LONG
    listed = target.stub.ListSessions(generation_pb2.ListSessionsRequest(model=made.model))
    assert ([one.name for one in listed.sessions], listed.blocks, listed.max_blocks) == (["mine"], 3, 16)
    assert create(target, "text").ttl_seconds == 600
    delete(target, "mine")
    with pytest.raises(grpc.RpcError) as failure:
        get(target, "mine")
    assert code_of(failure) == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")


def test_an_answer_in_a_session_is_that_to_all_its_tokens(target: RunningTarget) -> None:
    session = create(target, salt="mine")
    behind = stream(target, stream_request(MORE, session=session.name, output=OUTPUT))
    plain = stream(target, stream_request(LONG + MORE, output=OUTPUT, cache={"prefix": False}))
    assert (behind.started.cached_tokens, plain.started.cached_tokens) == (96, 0)
    assert list(behind.started.prompt_token_ids) == LONG + MORE
    assert behind.token_ids == plain.token_ids
    assert behind.records == plain.records
    assert behind.text == plain.text
    whole = target.stub.Generate(as_unary(stream_request(MORE, session=session.name)), timeout=60)
    assert list(whole.token_ids) == plain.token_ids


def test_a_stream_in_a_session_continues_without_it(target: RunningTarget) -> None:
    session = create(target)
    whole = stream(target, stream_request(MORE, session=session.name, output=OUTPUT))
    delete(target, session.name)
    rest = stream(target, continued(stream_request(MORE, output=OUTPUT), whole, 5))
    assert rest.token_ids == whole.token_ids[5:]
    assert rest.records == whole.records[5:]


@pytest.mark.parametrize("prompt", [{}, {"text": ""}, {"token_ids": {}}])
def test_the_prompt_may_be_empty(target: RunningTarget, prompt: dict[str, Any]) -> None:
    session = create(target, LONG[:96])
    asked = [
        stream_request(prompt, session=session.name, num_samples=2),
        stream_request(LONG[:96], num_samples=2, cache={"prefix": False}),
    ]
    behind, plain = [target.stub.Generate(as_unary(request), timeout=60) for request in asked]
    for one, other in zip([behind, *behind.further_samples], [plain, *plain.further_samples], strict=True):
        assert one.token_ids == other.token_ids
    assert session.blocks == 2  # the last token is computed each time, for its logits


def test_text_in_a_session_gets_no_special_tokens(target: RunningTarget) -> None:
    session = create(target, PROMPT, token_ids=True)
    for special, expected in ((None, False), (False, False), (True, True)):
        prompt = {"text": "x = 1", **({} if special is None else {"add_special_tokens": special})}
        behind = stream(target, stream_request(prompt, session=session.name, output=OUTPUT))
        tokenized = generation_pb2.TokenizeRequest(text="x = 1", add_special_tokens=expected)
        ids = list(target.stub.Tokenize(tokenized).token_ids)
        assert list(behind.started.prompt_token_ids) == [*session.token_ids, *ids]


def test_forks_share_common_blocks_and_outlive_each_other(target: RunningTarget) -> None:
    create(target, name="root")
    for name, token in (("left", 7), ("right", 8)):
        made = create(target, [token] * 40, parent="root", name=name)
        assert (made.tokens, made.blocks) == (140, 4)
    listed = target.stub.ListSessions(generation_pb2.ListSessionsRequest())
    assert (len(listed.sessions), listed.blocks) == (3, 5)
    assert target.engine.blocks.num_by_state["used"] == 5
    delete(target, "root")
    assert target.engine.blocks.num_by_state["used"] == 5
    behind = stream(target, stream_request(MORE, session="left"))
    assert behind.started.cached_tokens == 128
    assert behind.token_ids == stream(target, stream_request([*LONG, *[7] * 40, *MORE])).token_ids


def test_a_session_is_found_by_its_salt_even_after_a_flush(target: RunningTarget) -> None:
    tokens = [*range(200, 300)]
    session = create(target, tokens, salt="a")
    assert stream(target, stream_request(tokens)).started.cached_tokens == 0
    assert stream(target, stream_request(tokens, cache={"salt": "a"})).started.cached_tokens == 96
    target.on_engine_thread(target.engine.blocks.forget)
    assert stream(target, stream_request(MORE, session=session.name)).started.cached_tokens == 96
    unshared = stream(target, stream_request(MORE, session=session.name, cache={"prefix": False}))
    assert unshared.started.cached_tokens == 0


def test_each_use_restarts_a_sessions_time(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    with target_server(model) as target:
        sessions = sessions_of(target)
        monkeypatch.setattr(sessions, "_clock", lambda: now)
        create(target, name="used", ttl_seconds=10)
        create(target, name="left", ttl_seconds=10)
        now += 9
        stream(target, stream_request(MORE, session="used"))
        create(target, MORE, parent="used", name="child")
        assert (get(target, "used").seconds_left, get(target, "left").seconds_left) == (10, 1)
        now += 1
        with pytest.raises(grpc.RpcError) as failure:
            stream(target, stream_request(MORE, session="left"))
        assert code_of(failure) == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
        now += 600
        wait_until(lambda: not sessions._sessions)  # the sweep drops them without any request
        target.assert_all_free()


def test_a_name_is_taken_once(target: RunningTarget) -> None:
    create(target, name="mine")
    with pytest.raises(grpc.RpcError) as failure:
        create(target, MORE, name="mine")
    assert code_of(failure) == (grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS")


@pytest.mark.parametrize("name", BAD)
def test_bad_fields_are_named(target: RunningTarget, name: str) -> None:
    fields, expected = BAD[name]
    with pytest.raises(grpc.RpcError) as failure:
        create(target, None, **{"prompt": {"text": PROMPT}, **fields})
    found = violations(failure.value)
    assert found.keys() == expected.keys()
    assert all(description in found[field] for field, description in expected.items())


def test_every_field_has_a_bad_value() -> None:
    told = {field.split(".")[0] for _, expected in BAD.values() for field in expected}
    fields = {field.name for field in generation_pb2.CreateSessionRequest.DESCRIPTOR.fields}
    assert told | NEVER_BAD == fields
    assert told.isdisjoint(NEVER_BAD)


def test_fields_that_conflict_with_a_session_are_named(target: RunningTarget) -> None:
    session = create(target, [5] * 500)
    request = stream_request(
        [5] * (CONTEXT_LENGTH - 500),
        session=session.name,
        cache={"salt": "a"},
        continue_from={"fingerprint": session.fingerprint},
    )
    with pytest.raises(grpc.RpcError) as failure:
        stream(target, request)
    found = violations(failure.value)
    assert found.keys() == {"session", "cache.salt", "prompt.token_ids.ids"}
    assert f"at most {CONTEXT_LENGTH - 501}, beside the session's 500" in found["prompt.token_ids.ids"]
    with pytest.raises(grpc.RpcError) as refused:
        create(target, MORE, parent=session.name, salt="a")
    assert violations(refused.value) == {"salt": "is set; allowed: not to be, with a parent, which has its own"}


def test_a_call_that_ends_early_leaves_nothing(model: Path) -> None:
    with target_server(model, prefill_chunk=1) as slow:
        request = generation_pb2.CreateSessionRequest(prompt={"token_ids": {"ids": [5, 6] * 200}}, name="it")
        call = slow.stub.CreateSession.future(request, timeout=60)
        wait_until(lambda: slow.on_engine_thread(lambda: bool(slow.engine.scheduler.running)))
        with pytest.raises(grpc.RpcError) as failure:
            get(slow, "it")
        assert failure.value.code() is grpc.StatusCode.NOT_FOUND
        call.cancel()
        slow.assert_all_free()
        with slow.held(), pytest.raises(grpc.RpcError) as late:
            slow.stub.CreateSession(request, timeout=0.05)
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        slow.assert_all_free()
        assert slow.stub.CreateSession(request, timeout=60).session.blocks == 12
        assert slow.engine.blocks.num_by_state["used"] == 12
