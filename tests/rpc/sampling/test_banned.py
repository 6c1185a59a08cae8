"""Banned strings through the whole service: never in the text, reported when suppressed, and nothing is taken back."""

from typing import Any

import pytest

from outrider import Client
from outrider.v1 import common_pb2
from outrider.v1.generation_pb2 import GetModelInfoRequest, StreamGenerateRequest
from tests.harness.servers.server import RunningTarget
from tests.rpc.harness.requests import Streamed, as_unary, stop_string_in, stream, stream_request, violations

NUM_TOKENS = 24
SAMPLING: dict[str, Any] = {"seed": 11, "temperature": 0.9, "repetition_penalty": 1.2, "presence_penalty": 0.5}
OPTIONS: dict[str, Any] = {
    "stop": {"max_tokens": NUM_TOKENS, "ignore_eos": True},
    "output": {"logprobs": True, "prompt_token_ids": True, "pass_reports": True},
}


@pytest.fixture(scope="module")
def free(by_token: RunningTarget) -> Streamed:
    """The answer where nothing is banned."""
    return stream(by_token, stream_request(sampling=SAMPLING, **OPTIONS))


@pytest.fixture(scope="module")
def banned(free: Streamed) -> str:
    """A part of it, in another case."""
    return stop_string_in(free.text, 10).upper()


@pytest.fixture(scope="module")
def request_with_ban(banned: str) -> StreamGenerateRequest:
    return stream_request(sampling={**SAMPLING, "banned_strings": ["not in there", banned]}, **OPTIONS)


@pytest.fixture(scope="module")
def whole(by_token: RunningTarget, request_with_ban: StreamGenerateRequest) -> Streamed:
    """The answer with the ban."""
    return stream(by_token, request_with_ban)


def suppressed_in(answer: Streamed) -> list[common_pb2.Suppressed]:
    return [suppressed for chunk in answer.chunks for suppressed in chunk.suppressed]


def test_a_banned_string_is_suppressed_and_reported(free: Streamed, whole: Streamed, banned: str) -> None:
    assert banned.lower() in free.text.lower()
    assert banned.lower() not in whole.text.lower()
    first = suppressed_in(whole)[0]
    assert first.banned_string == banned
    assert banned.lower() in first.text.lower()
    assert whole.token_ids[: first.position] == free.token_ids[: first.position]
    assert free.token_ids[first.position] == first.token_id != whole.token_ids[first.position]
    assert whole.finished.usage.completion_tokens == len(whole.token_ids) == NUM_TOKENS
    assert sum(report.tokens for chunk in whole.chunks for report in chunk.pass_reports) == NUM_TOKENS


def test_suppressed_tokens_count_as_logits_of_minus_infinity(by_token: RunningTarget, whole: Streamed) -> None:
    """In the first place where something was suppressed: the noise is the same, and so are the log-probabilities."""
    position = min(one.position for one in suppressed_in(whole))
    forbidden = [one.token_id for one in suppressed_in(whole) if one.position == position]
    bias = [{"token_id": token_id, "bias": float("-inf")} for token_id in forbidden]
    request = stream_request([*whole.started.prompt_token_ids], sampling={**SAMPLING, "logit_bias": bias}, **OPTIONS)
    request.continue_from.fingerprint = whole.started.fingerprint
    request.continue_from.token_ids.extend(whole.token_ids[:position])
    assert stream(by_token, request).records[0] == whole.records[position]


def test_a_unary_answer_reports_the_same_suppressions(
    by_token: RunningTarget, request_with_ban: StreamGenerateRequest, whole: Streamed
) -> None:
    answer = by_token.stub.Generate(as_unary(request_with_ban))
    assert (answer.text, [*answer.token_ids]) == (whole.text, whole.token_ids)
    assert [*answer.suppressed] == suppressed_in(whole)


def test_every_cut_continues_with_the_same_bytes(
    by_token: RunningTarget, request_with_ban: StreamGenerateRequest, whole: Streamed
) -> None:
    assert len(whole.chunks) < len(whole.token_ids), "no token was ever held back"
    for count in range(len(whole.chunks) + 1):
        before = whole.chunks[:count]
        request = StreamGenerateRequest()
        request.CopyFrom(request_with_ban)
        request.prompt.token_ids.ids.extend(whole.started.prompt_token_ids)
        request.continue_from.fingerprint = whole.started.fingerprint
        request.continue_from.token_ids.extend(i for chunk in before for i in chunk.token_ids)
        rest = stream(by_token, request)
        assert [i for chunk in before for i in chunk.token_ids] + rest.token_ids == whole.token_ids
        assert [record for chunk in before for record in chunk.records] + rest.records == whole.records
        assert "".join(chunk.text for chunk in before) + rest.text == whole.text
        told = [suppressed for chunk in before for suppressed in chunk.suppressed]
        assert told + suppressed_in(rest) == suppressed_in(whole)


def test_received_tokens_with_a_banned_string_are_refused(
    by_token: RunningTarget, request_with_ban: StreamGenerateRequest, free: Streamed
) -> None:
    request = StreamGenerateRequest()
    request.CopyFrom(request_with_ban)
    request.continue_from.fingerprint = free.started.fingerprint
    request.continue_from.token_ids.extend(free.token_ids)
    with pytest.raises(Exception, match="INVALID_ARGUMENT") as failure:
        stream(by_token, request)
    assert "completes a banned string" in violations(failure.value)["continue_from.token_ids"]


def test_the_python_client_sends_bans_and_reads_suppressions(
    by_token: RunningTarget, whole: Streamed, banned: str
) -> None:
    with Client(by_token.address) as client:
        result = client.generate(
            [*whole.started.prompt_token_ids],
            **{**SAMPLING, "max_tokens": NUM_TOKENS, "ignore_eos": True},
            banned_strings=["not in there", banned],
        )
        assert client.generate("a", max_tokens=1, banned_strings="b").suppressed == ()
    assert (result.text, [*result.token_ids]) == (whole.text, whole.token_ids)
    assert [
        common_pb2.Suppressed(
            text=one.text, banned_string=one.banned_string, position=one.position, token_id=one.token_id
        )
        for one in result.suppressed
    ] == suppressed_in(whole)


def test_the_limits_of_bans_are_reported_and_can_be_reached(by_token: RunningTarget) -> None:
    limits = by_token.stub.GetModelInfo(GetModelInfoRequest()).limits
    assert (limits.max_banned_strings, limits.max_banned_string_bytes) == (128, 128)
    most = ["\u00e4" * 64] * 128
    assert stream(by_token, stream_request(sampling={"banned_strings": most})).finished.usage.completion_tokens == 24
