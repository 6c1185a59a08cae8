"""The events of a generation: their order and their contents."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from outrider.v1 import common_pb2, generation_pb2
from services.service.limits import LIMITS
from tests.harness.models.checkpoints import (
    CHAT_TEMPLATE,
    CONTEXT_LENGTH,
    SPECIAL_TOKENS,
    VOCAB_SIZE,
    byte_level_tokenizer,
)
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.requests import PROMPT, as_unary, stop_string_in, stream, stream_request

LOGPROBS = {"top_candidates": 5}


@pytest.fixture(scope="module")
def chunked(model: Path) -> Iterator[RunningTarget]:
    """A server that computes prompts sixteen tokens at a time."""
    with target_server(model, prefill_chunk=16) as running:
        yield running
        running.assert_all_free()


def decode(target: RunningTarget, token_ids: list[int]) -> generation_pb2.DetokenizeResponse:
    return target.stub.Detokenize(generation_pb2.DetokenizeRequest(token_ids=token_ids))


def test_events_come_in_order_and_progress_only_before_text(chunked: RunningTarget) -> None:
    whole = stream(chunked, stream_request([7] * 100))
    last = len(whole.prefills) + len(whole.chunks) + 1
    assert whole.kinds == ["started", *["prefill"] * len(whole.prefills), *["chunk"] * len(whole.chunks), "finished"]
    assert whole.kinds.index("finished") == last
    done = [prefill.done_tokens for prefill in whole.prefills]
    assert done == sorted(set(done))
    assert {count % 16 for count in done} == {0}
    assert {prefill.total_tokens for prefill in whole.prefills} == {100}


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_max_tokens_is_exact(target: RunningTarget, count: int) -> None:
    whole = stream(target, stream_request(stop={"max_tokens": count, "ignore_eos": True}))
    assert len(whole.token_ids) == count
    assert whole.finished.usage.completion_tokens == count
    assert whole.reason == "FINISH_REASON_MAX_TOKENS"


def test_the_text_is_that_of_the_ids(target: RunningTarget) -> None:
    whole = stream(target, stream_request(stop={"max_tokens": 200, "ignore_eos": True}))
    assert whole.text == decode(target, whole.token_ids).text
    assert all(chunk.token_ids for chunk in whole.chunks)


def test_started_has_all_that_a_continuation_needs(target: RunningTarget) -> None:
    whole = stream(target, stream_request(output={"prompt_token_ids": True}, request_id="mine"))
    encoded = target.stub.Tokenize(generation_pb2.TokenizeRequest(text=PROMPT))
    info = target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest())
    started = whole.started
    assert (started.request_id, started.seed, started.fingerprint) == ("mine", 5, info.fingerprint)
    assert started.prompt_token_ids == encoded.token_ids
    assert started.prompt_tokens == len(encoded.token_ids) == whole.finished.usage.prompt_tokens
    assert started.model == info.name
    assert not stream(target, stream_request()).started.prompt_token_ids


def test_the_server_draws_a_seed_that_gives_the_same_again(target: RunningTarget) -> None:
    first, second = (stream(target, stream_request(sampling={})) for _ in range(2))
    assert first.started.seed != second.started.seed
    assert first.started.request_id != second.started.request_id
    again = stream(target, stream_request(sampling={"seed": first.started.seed}))
    assert again.token_ids == first.token_ids


def test_records_come_when_asked_for(target: RunningTarget) -> None:
    plain = stream(target, stream_request())
    recorded = stream(target, stream_request(output={"token_records": True}))
    scored = stream(target, stream_request(output=LOGPROBS))
    assert plain.records == []
    assert [record.id for record in recorded.records] == recorded.token_ids == plain.token_ids == scored.token_ids
    assert not any(record.HasField("raw_logprob") or record.candidates for record in recorded.records)
    for record in scored.records:
        assert record.raw_logprob <= 0
        assert record.HasField("processed_logprob")
        assert len(record.candidates) == 5
        processed = [candidate.processed_logprob for candidate in record.candidates]
        assert processed == sorted(processed, reverse=True)


def test_bytes_that_are_no_text_survive(target: RunningTarget) -> None:
    whole = stream(target, stream_request(stop={"max_tokens": 200, "ignore_eos": True}, output={"token_records": True}))
    data = b"".join(record.bytes for record in whole.records if record.id >= len(SPECIAL_TOKENS))
    assert data == decode(target, whole.token_ids).bytes
    assert any("\N{REPLACEMENT CHARACTER}" in record.text for record in whole.records)
    encoded = target.stub.Tokenize(generation_pb2.TokenizeRequest(text="é", add_special_tokens=False))
    assert list(encoded.token_bytes) == [b"\xc3", b"\xa9"]
    half = decode(target, list(encoded.token_ids[:1]))
    assert (half.bytes, half.text) == (b"\xc3", "\N{REPLACEMENT CHARACTER}")


def test_generate_returns_the_answer_of_stream_generate(target: RunningTarget) -> None:
    request = stream_request(output={**LOGPROBS, "prompt_token_ids": True}, request_id="same")
    streamed, whole = stream(target, request), target.stub.Generate(as_unary(request))
    assert whole.text == streamed.text
    assert list(whole.token_ids) == streamed.token_ids
    assert list(whole.records) == streamed.records
    assert whole.started == streamed.started
    for finished in (whole.finished, streamed.finished):
        finished.ClearField("timings")
    assert whole.finished == streamed.finished


def test_a_stop_string_ends_the_text_before_it(target: RunningTarget) -> None:
    request = stream_request(stop={"max_tokens": 200, "ignore_eos": True})
    text = stream(target, request).text
    stop = stop_string_in(text, 60)
    request.stop.strings.append(stop)
    whole = stream(target, request)
    assert whole.text == text[: text.index(stop)]
    assert whole.reason == "FINISH_REASON_STOP_STRING"
    assert whole.finished.stop_string == stop


def test_a_stop_token_ends_the_text_and_is_sent_as_an_id(target: RunningTarget) -> None:
    ids = stream(target, stream_request()).token_ids
    stop = next(token_id for index, token_id in enumerate(ids) if index > 4 and token_id not in ids[:index])
    whole = stream(target, stream_request(stop={"max_tokens": 24, "token_ids": [stop], "ignore_eos": True}))
    assert whole.token_ids == ids[: ids.index(stop) + 1]
    assert whole.reason == "FINISH_REASON_STOP_TOKEN"
    assert whole.finished.stop_token_id == stop


@pytest.mark.parametrize("stop", [{}, {"max_tokens": 10_000}])
def test_a_full_context_is_a_reason_of_its_own(target: RunningTarget, stop: dict[str, int]) -> None:
    whole = stream(target, stream_request([7] * (CONTEXT_LENGTH - 20), stop={**stop, "ignore_eos": True}))
    assert len(whole.token_ids) == 20
    assert whole.reason == "FINISH_REASON_CONTEXT_LENGTH"


def test_a_conversation_is_rendered_by_the_model_s_own_template(target: RunningTarget) -> None:
    messages = [{"role": "user", "content": " hello "}, {"role": "assistant", "content": "yes"}]
    chat = stream(target, stream_request({"chat": {"messages": messages}}, output={"prompt_token_ids": True}))
    text = "<|begin|><|user|>hello<|end|><|assistant|>yes<|end|><|assistant|>"
    assert list(chat.started.prompt_token_ids) == byte_level_tokenizer().encode(text, add_special_tokens=False).ids
    encoded = target.stub.Tokenize(generation_pb2.TokenizeRequest(chat={"messages": messages}))
    assert encoded.token_ids == chat.started.prompt_token_ids


def test_special_tokens_are_spelled_out_on_request(target: RunningTarget) -> None:
    ids = [2, *byte_level_tokenizer().encode("hi", add_special_tokens=False).ids, 1]
    shown = target.stub.Detokenize(generation_pb2.DetokenizeRequest(token_ids=ids, show_special_tokens=True))
    assert (decode(target, ids).text, shown.text) == ("hi", "<|user|>hi<|end|>")
    without = target.stub.Tokenize(generation_pb2.TokenizeRequest(text="hi", add_special_tokens=False))
    with_begin = target.stub.Tokenize(generation_pb2.TokenizeRequest(text="hi"))
    assert list(with_begin.token_ids) == [0, *without.token_ids]


def test_finished_has_timings_and_the_reason_of_no_speculation(target: RunningTarget) -> None:
    finished = stream(target, stream_request()).finished
    timings = finished.timings
    spans = [timings.queue, timings.prefill, timings.decode]
    assert sum(span.ToNanoseconds() for span in spans) == pytest.approx(timings.total.ToNanoseconds(), abs=3)
    assert 0 < timings.first_token.ToNanoseconds() <= timings.total.ToNanoseconds()
    stats = finished.speculation
    assert (stats.passes, stats.predicted, stats.accepted, stats.tokens_per_pass) == (24, 0, 0, 1.0)
    assert stats.no_speculation_reason == common_pb2.NO_SPECULATION_REASON_NO_PREDICTOR
    forbidden = stream(target, stream_request(speculation={"mode": common_pb2.SPECULATION_MODE_NEVER}))
    assert forbidden.finished.speculation.no_speculation_reason == common_pb2.NO_SPECULATION_REASON_FORBIDDEN


def test_model_info_describes_the_model_and_the_limits(target: RunningTarget, model: Path) -> None:
    info = target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest())
    assert (info.name, info.architecture) == (model.name, "LlamaForCausalLM")
    assert (info.context_length, info.vocab_size) == (CONTEXT_LENGTH, VOCAB_SIZE)
    assert list(info.eos_token_ids) == [1]
    assert info.has_chat_template
    assert {field.name: value for field, value in info.limits.ListFields()} == asdict(LIMITS)
    assert info.fingerprint_parts.kv_type == "bf16"


def test_unset_parameters_come_from_the_checkpoint(target: RunningTarget, model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "greedy")
    (folder / "generation_config.json").write_text(json.dumps({"do_sample": False}))
    (folder / "chat_template.jinja").unlink()
    assert CHAT_TEMPLATE not in (folder / "tokenizer_config.json").read_text()
    greedy = stream(target, stream_request(sampling={"temperature": 0.0})).token_ids
    with target_server(folder) as other:
        assert stream(other, stream_request()).token_ids == greedy
        assert stream(other, stream_request(sampling={"seed": 5, "temperature": 1.0})).token_ids != greedy
        assert not other.stub.GetModelInfo(generation_pb2.GetModelInfoRequest()).has_chat_template


def test_tokens_that_the_checkpoint_forces_are_drawn(target: RunningTarget, model: Path, tmp_path: Path) -> None:
    plain = stream(target, stream_request([7])).token_ids
    folder = shutil.copytree(model, tmp_path / "forced")
    forced = {"forced_bos_token_id": 77, "forced_eos_token_id": [1]}
    (folder / "generation_config.json").write_text(json.dumps(forced))
    with target_server(folder) as other:
        alone, behind_two = (stream(other, stream_request(prompt)).token_ids for prompt in ([7], [7, 8]))
    assert (plain[0], plain[-1]) != (alone[0], alone[-1]) == (77, 1)
    assert (behind_two[0] == 77, behind_two[-1]) == (False, 1)


def test_the_checkpoints_suppressed_tokens_can_be_overridden(
    target: RunningTarget, model: Path, tmp_path: Path
) -> None:
    plain = stream(target, stream_request()).token_ids
    first, second, third = plain[:3]
    folder = shutil.copytree(model, tmp_path / "ruled")
    rules = {"suppress_tokens": [third], "begin_suppress_tokens": [first], "bad_words_ids": [[second]]}
    (folder / "generation_config.json").write_text(json.dumps(rules))
    with target_server(folder) as other:
        ruled = stream(other, stream_request()).token_ids
        assert ruled[0] != first
        assert {second, third}.isdisjoint(ruled)
        own = {
            "seed": 5,
            "suppress_token_ids": [0],
            "begin_suppress_token_ids": [0],
            "bad_words_ids": [{"ids": [0, 0]}],
        }
        assert stream(other, stream_request(sampling=own)).token_ids == plain
