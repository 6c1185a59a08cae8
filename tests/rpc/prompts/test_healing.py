"""A prompt that is healed over the real service: with a draft and without, whole and continued."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import common_pb2
from outrider.v1.generation_pb2 import StreamGenerateRequest
from services.engine.text.tokenizer import Tokenizer
from tests.harness.models.checkpoints import byte_level_tokenizer
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import RunningDraft
from tests.rpc.harness.requests import PROMPT, Streamed, as_unary, continued, stream, stream_request, violations

TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())
ALWAYS = {"mode": common_pb2.SPECULATION_MODE_ALWAYS, "num_predictions": 4}
END = 1


def request(**fields: Any) -> StreamGenerateRequest:
    """A request whose prompt ends in a space, with which many tokens begin."""
    defaults = {"output": {"logprobs": True, "prompt_token_ids": True}, "speculation": ALWAYS}
    return stream_request({"text": PROMPT + " ", "heal": True}, **{**defaults, **fields})


def essence(answer: Streamed) -> tuple[Any, ...]:
    """All of an answer that must be the same, whatever was predicted."""
    records = [common_pb2.TokenRecord() for _ in answer.records]
    for copy, record in zip(records, answer.records, strict=True):
        copy.CopyFrom(record)
        copy.ClearField("predicted")
        copy.ClearField("prediction_source")
    return answer.token_ids, answer.text, records, answer.reason, answer.finished.usage


@pytest.fixture(scope="module")
def drafted(model: Path, shared_draft: RunningDraft) -> Iterator[RunningTarget]:
    """A server whose draft has the target's own model."""
    with target_server(model, drafts=[shared_draft.address], prefill_chunk=5) as running:
        running.wait_for_draft()
        yield running
        running.assert_all_free()
    shared_draft.assert_all_free()


def test_the_prompt_is_reported_and_counted_as_it_was_sent(target: RunningTarget) -> None:
    answer = stream(target, request())
    ids = TOKENIZER.encode(PROMPT + " ")
    assert list(answer.started.prompt_token_ids) == ids
    assert (answer.finished.usage.prompt_tokens, answer.finished.usage.completion_tokens) == (len(ids), 24)
    assert len(answer.token_ids) == len(answer.records) == 24
    own = b"".join(record.bytes for record in answer.records if not TOKENIZER.is_special(record.id))
    assert answer.text.endswith(own.decode(errors="replace"))
    assert answer.chunks[0].token_ids


def test_unary_gives_the_same(target: RunningTarget) -> None:
    answer, whole = stream(target, request()), target.stub.Generate(as_unary(request()))
    assert (whole.text, list(whole.token_ids), list(whole.records)) == (answer.text, answer.token_ids, answer.records)


def test_a_draft_changes_nothing_and_predicts_after_healing(target: RunningTarget, drafted: RunningTarget) -> None:
    num_accepted = 0
    for seed in range(4):
        wanted = request(sampling={"seed": seed, "temperature": 0.8})
        answer = stream(drafted, wanted)
        assert essence(answer) == essence(stream(target, wanted))
        num_accepted += answer.finished.speculation.accepted
    assert num_accepted > 0


@pytest.mark.parametrize("count", [0, 1, 2, 11, 23, 24])
def test_a_healed_answer_is_continued_with_the_same_bytes(
    target: RunningTarget, drafted: RunningTarget, count: int
) -> None:
    """The text after no token is none: what the healed token adds comes with the first one."""
    whole = stream(target, request())
    text = stream(target, request(stop={"max_tokens": count, "ignore_eos": True})).text if count else ""
    for server in (target, drafted):
        rest = stream(server, continued(request(), whole, count))
        assert [*whole.token_ids[:count], *rest.token_ids] == whole.token_ids
        assert rest.finished.usage == whole.finished.usage
        assert rest.reason == whole.reason
        if (
            "\N{REPLACEMENT CHARACTER}" not in text[-1:]
        ):  # else the cut is inside a character, which is shown differently at an end
            assert text + rest.text == whole.text


@pytest.mark.parametrize("count", [24, 30])
def test_tokens_beyond_the_end_are_refused_by_name(target: RunningTarget, count: int) -> None:
    whole = stream(target, request(stop={"max_tokens": count, "ignore_eos": True}))
    with pytest.raises(grpc.RpcError) as failure:
        stream(target, continued(request(stop={"max_tokens": 23, "ignore_eos": True}), whole, count))
    said = violations(failure.value)
    assert list(said) == ["continue_from.token_ids"]
    assert f"ends after 23 tokens, but {count} were received" in said["continue_from.token_ids"]


@pytest.mark.parametrize("ids", [[7], [5, END], [5, 511]], ids=["a single token", "a special token", "padding"])
def test_a_prompt_that_cannot_be_healed_is_unchanged(target: RunningTarget, ids: list[int]) -> None:
    plain = stream_request({"token_ids": {"ids": ids}})
    healed = stream_request({"token_ids": {"ids": ids}, "heal": True})
    assert essence(stream(target, healed)) == essence(stream(target, plain))


def test_a_prompt_with_all_healed_tokens_forbidden_ends_at_once(target: RunningTarget) -> None:
    forbidden = [
        {"token_id": token_id, "bias": float("-inf")}
        for token_id in range(TOKENIZER.vocab_size)
        if TOKENIZER.token_bytes(token_id).startswith(b" ")
    ]
    answer = stream(target, request(sampling={"seed": 1, "logit_bias": forbidden}))
    assert (answer.kinds, answer.reason) == (["started", "finished"], "FINISH_REASON_NO_CANDIDATES")
    assert answer.finished.usage.completion_tokens == 0
