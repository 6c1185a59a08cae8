"""A generation that was cut continues with the same bytes, or is refused."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from outrider.v1.generation_pb2 import StreamGenerateRequest
from tests.harness.servers.server import RunningTarget
from tests.rpc.harness.requests import Streamed, detail, stop_string_in, stream, stream_request, violations

Continue = Callable[[int], StreamGenerateRequest]
OPTIONS: dict[str, Any] = {
    "sampling": {"seed": 11, "temperature": 0.9, "top_p": 0.95, "repetition_penalty": 1.2, "presence_penalty": 0.5},
    "stop": {"max_tokens": 40, "min_tokens": 20, "ignore_eos": True},
    "output": {"logprobs": True, "prompt_token_ids": True},
}


@pytest.fixture(scope="module")
def request_to_cut(by_token: RunningTarget) -> StreamGenerateRequest:
    """A request whose stop strings hold text back on the way and end it late."""
    text = stream(by_token, stream_request(**OPTIONS)).text
    request = stream_request(**OPTIONS)
    request.stop.strings.extend([stop_string_in(text, 60), stop_string_in(text, 10)[:2] + "\0"])
    return request


@pytest.fixture(scope="module")
def whole(by_token: RunningTarget, request_to_cut: StreamGenerateRequest) -> Streamed:
    """The generation without a cut."""
    return stream(by_token, request_to_cut)


@pytest.fixture
def continue_after(request_to_cut: StreamGenerateRequest, whole: Streamed) -> Continue:
    """A function from a number of chunks to the request that continues after them."""

    def make(count: int) -> StreamGenerateRequest:
        request = StreamGenerateRequest()
        request.CopyFrom(request_to_cut)
        request.prompt.token_ids.ids.extend(whole.started.prompt_token_ids)
        request.continue_from.fingerprint = whole.started.fingerprint
        request.continue_from.token_ids.extend(i for chunk in whole.chunks[:count] for i in chunk.token_ids)
        return request

    return make


def test_every_cut_continues_with_the_same_bytes(
    by_token: RunningTarget, whole: Streamed, continue_after: Continue
) -> None:
    assert len(whole.chunks) == len(whole.token_ids) > 10
    assert whole.reason == "FINISH_REASON_STOP_STRING"
    assert any(not chunk.text for chunk in whole.chunks), "no text was ever held back"
    for count in range(len(whole.chunks) + 1):
        rest = stream(by_token, continue_after(count))
        before = whole.chunks[:count]
        assert [i for chunk in before for i in chunk.token_ids] + rest.token_ids == whole.token_ids
        assert "".join(chunk.text for chunk in before) + rest.text == whole.text
        assert [record for chunk in before for record in chunk.records] + rest.records == whole.records
        assert (rest.reason, rest.finished.stop_string) == (whole.reason, whole.finished.stop_string)
        usages = [answer.finished.usage for answer in (rest, whole)]
        assert len({(usage.prompt_tokens, usage.completion_tokens) for usage in usages}) == 1


def test_a_continuation_from_the_end_sends_only_the_end(
    by_token: RunningTarget, whole: Streamed, continue_after: Continue
) -> None:
    assert stream(by_token, continue_after(len(whole.chunks))).kinds == ["started", "finished"]


def test_another_fingerprint_is_refused(by_token: RunningTarget, whole: Streamed, continue_after: Continue) -> None:
    request = continue_after(3)
    request.continue_from.fingerprint = "0" * 32
    request.continue_from.token_ids.append(9999)  # an id of another vocabulary is no fault of the caller
    with pytest.raises(grpc.RpcError) as failure:
        stream(by_token, request)
    assert failure.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert whole.started.fingerprint in failure.value.details()
    assert "0" * 32 in failure.value.details()
    assert detail(failure.value, error_details_pb2.PreconditionFailure).violations[0].type == "FINGERPRINT"
    assert detail(failure.value, error_details_pb2.ErrorInfo).reason == "FINGERPRINT_MISMATCH"


def test_tokens_beyond_the_end_are_refused(by_token: RunningTarget, whole: Streamed, continue_after: Continue) -> None:
    request = continue_after(len(whole.chunks))
    request.continue_from.token_ids.append(7)
    with pytest.raises(grpc.RpcError) as failure:
        stream(by_token, request)
    found = violations(failure.value)
    assert list(found) == ["continue_from.token_ids"]
    assert f"ends after {len(whole.token_ids)} tokens" in found["continue_from.token_ids"]


def test_a_continuation_needs_the_seed(by_token: RunningTarget, continue_after: Continue) -> None:
    request = continue_after(3)
    request.sampling.ClearField("seed")
    with pytest.raises(grpc.RpcError) as failure:
        stream(by_token, request)
    assert list(violations(failure.value)) == ["sampling.seed"]
