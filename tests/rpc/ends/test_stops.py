"""What ends a generation beside its maximum, and that all of its text has arrived then."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import common_pb2, generation_pb2
from services.engine.text.tokenizer import Tokenizer
from tests.harness.models.checkpoints import CONTEXT_LENGTH, byte_level_tokenizer, copy_of, edit_json
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.ends_by_time import MARGIN, ended_in_time
from tests.rpc.harness.predictors import SlowPredictor
from tests.rpc.harness.requests import Streamed, as_unary, continued, stop_string_in, stream, stream_request

TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())
END = 1
(LETTER,) = TOKENIZER.encode("a", add_special_tokens=False)
ALWAYS_A: dict[str, Any] = {"seed": 5, "logit_bias": [{"token_id": LETTER, "bias": 1000.0}]}
LONG: dict[str, Any] = {"max_tokens": CONTEXT_LENGTH - 100, "ignore_eos": True}
HOUR = 3600.0
NEVER_WHOLE = "a" * 255 + "!"  # all that is generated may become it


@pytest.fixture(scope="module")
def slow_target(model: Path) -> Iterator[RunningTarget]:
    """A server that takes seconds for a long generation, and runs one at a time."""
    with target_server(model, predictor=SlowPredictor(), max_sequences=1) as running:
        yield running


@pytest.fixture
def slow(slow_target: RunningTarget) -> Iterator[RunningTarget]:
    """The slow server; after the test nothing is left in it."""
    yield slow_target
    slow_target.assert_all_free()


def limited_to(seconds: float) -> dict[str, Any]:
    """A long generation's limits, and so much time."""
    whole, rest = divmod(round(seconds * 1e9), 10**9)
    return {**LONG, "time_limit": {"seconds": whole, "nanos": rest}}


def assert_is_the_answer_with_so_many_tokens(target: RunningTarget, cut: Streamed, **fields: Any) -> None:
    """Ids, records and all text are those of a generation that ends at this number of tokens by itself."""
    assert 0 < len(cut.token_ids) == cut.finished.usage.completion_tokens < LONG["max_tokens"]
    stop = {**LONG, **fields.pop("stop", {}), "max_tokens": len(cut.token_ids)}
    same = stream(target, stream_request(stop=stop, **fields))
    assert (same.token_ids, same.text, same.records) == (cut.token_ids, cut.text, cut.records)


def test_every_file_may_name_the_end_of_an_answer(model: Path, tmp_path: Path) -> None:
    folder = copy_of(model, tmp_path)
    edit_json(folder / "config.json", eos_token_id=3)
    edit_json(folder / "generation_config.json", eos_token_id=[2])
    edit_json(folder / "tokenizer_config.json", eos_token={"content": "<|end|>"})
    with target_server(folder) as target:
        assert [*target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest()).eos_token_ids] == [1, 2, 3]
        sampling = {"logit_bias": [{"token_id": END, "bias": 1000.0}]}
        ended = stream(target, stream_request(sampling=sampling, stop={"max_tokens": 5}))
    assert (ended.reason, ended.token_ids) == ("FINISH_REASON_STOP_TOKEN", [END])


def test_an_end_token_that_is_no_token_is_passed_over(model: Path, tmp_path: Path) -> None:
    folder = copy_of(model, tmp_path)
    edit_json(folder / "tokenizer_config.json", eos_token="no token")
    with target_server(folder) as target:
        assert [*target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest()).eos_token_ids] == [1]


def test_a_time_limit_ends_the_stream_with_the_text_so_far(slow: RunningTarget) -> None:
    cut = ended_in_time(
        lambda seconds: stream(slow, stream_request(stop=limited_to(seconds), output={"logprobs": True}))
    )
    assert cut.reason == "FINISH_REASON_TIME_LIMIT"
    assert_is_the_answer_with_so_many_tokens(slow, cut, output={"logprobs": True})


@pytest.mark.usefixtures("wide_margin")
@pytest.mark.parametrize("reason", ["FINISH_REASON_TIME_LIMIT", "FINISH_REASON_DEADLINE"])
def test_held_text_comes_with_an_end_by_time(slow: RunningTarget, reason: str) -> None:
    def answer_within(seconds: float) -> Streamed:
        limit, timeout = (seconds, HOUR) if reason == "FINISH_REASON_TIME_LIMIT" else (HOUR, MARGIN + seconds)
        stop = {**limited_to(limit), "strings": [NEVER_WHOLE]}
        return stream(slow, stream_request(sampling=ALWAYS_A, stop=stop), timeout=timeout)

    cut = ended_in_time(answer_within)
    assert cut.reason == reason
    assert cut.text == "a" * len(cut.token_ids)
    assert cut.finished.text == cut.text[-255:]
    assert_is_the_answer_with_so_many_tokens(slow, cut, sampling=ALWAYS_A, stop={"strings": [NEVER_WHOLE]})


def test_a_whole_answer_that_ends_by_time_has_all_text_too(slow: RunningTarget) -> None:
    def answer_within(seconds: float) -> generation_pb2.GenerateResponse:
        stop = {**limited_to(seconds), "strings": [NEVER_WHOLE]}
        return slow.stub.Generate(as_unary(stream_request(sampling=ALWAYS_A, stop=stop)))

    whole = ended_in_time(answer_within)
    assert whole.text == "a" * len(whole.token_ids) != ""


def test_an_end_by_time_is_continued_with_the_held_text(slow: RunningTarget) -> None:
    def answer_within(seconds: float) -> Streamed:
        stop = {**limited_to(seconds), "strings": [NEVER_WHOLE]}
        return stream(slow, stream_request(sampling=ALWAYS_A, stop=stop, output={"prompt_token_ids": True}))

    cut = ended_in_time(answer_within)
    whole = len(cut.token_ids) + 100
    request = stream_request(sampling=ALWAYS_A, stop={**LONG, "strings": [NEVER_WHOLE], "max_tokens": whole})
    request.prompt.token_ids.ids[:] = cut.started.prompt_token_ids
    request.continue_from.fingerprint = cut.started.fingerprint
    request.continue_from.token_ids[:] = cut.token_ids
    rest = stream(slow, request)
    assert "".join(chunk.text for chunk in cut.chunks) + rest.text == "a" * whole


def test_a_time_limit_counts_the_time_in_the_queue(slow: RunningTarget) -> None:
    first = slow.stub.StreamGenerate(stream_request(stop=LONG))
    wait_until(lambda: slow.engine.scheduler.running)
    waited = stream(slow, stream_request(stop={**LONG, "time_limit": {"nanos": 100_000_000}}))
    assert (waited.kinds, waited.reason) == (["started", "finished"], "FINISH_REASON_TIME_LIMIT")
    assert slow.engine.scheduler.running
    first.cancel()


def test_a_stalled_reader_holds_nothing_beyond_the_time_limit(model: Path) -> None:
    narrow = [("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
    with target_server(model, stream_capacity=8) as target, grpc.insecure_channel(target.address, narrow) as channel:
        scheduler = target.engine.scheduler
        for seconds in (1.0, 4.0, 12.0, 36.0):  # a slow machine may need more of them until it is held up
            request = stream_request(stop=limited_to(seconds), output={"top_candidates": 20})
            call = type(target.stub)(channel).StreamGenerate(request)
            while not next(call).HasField("chunk"):
                pass
            wait_until(lambda: not scheduler.running or any(sequence.is_paused for sequence in scheduler.running))
            if is_held_up := bool(scheduler.running):
                break
        assert is_held_up
        wait_until(lambda: not scheduler.running)  # a look that does not wake the engine
        target.assert_all_free()
        *_, last = call
        assert last.finished.reason == common_pb2.FINISH_REASON_TIME_LIMIT


async def num_timers() -> int:
    """How many are waiting on the server's event loop, which keeps them among its own affairs."""
    return sum(not timer.cancelled() for timer in asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]


def test_cancelled_and_finished_requests_leave_no_timer(target: RunningTarget) -> None:
    def limited(max_tokens: int) -> generation_pb2.StreamGenerateRequest:
        stop = {"max_tokens": max_tokens, "ignore_eos": True, "time_limit": {"seconds": 3600}}
        return stream_request(stop=stop, num_samples=2)

    before = target.call(num_timers())
    for _ in range(10):
        call = target.stub.StreamGenerate(limited(400), timeout=3600)
        next(call)
        call.cancel()
    list(target.stub.StreamGenerate(limited(2)))
    target.assert_all_free()
    wait_until(lambda: target.call(num_timers()) <= before)


def test_a_time_limit_that_is_not_reached_changes_nothing(target: RunningTarget) -> None:
    stop = {"max_tokens": 24, "ignore_eos": True}
    limited = stream(target, stream_request(stop={**stop, "time_limit": {"seconds": 3600}}))
    plain = stream(target, stream_request(stop=stop))
    assert (limited.token_ids, limited.text, limited.reason) == (plain.token_ids, plain.text, plain.reason)


@pytest.mark.parametrize("min_tokens", [0, 20])
def test_a_loop_ends_the_stream_with_all_of_its_text(target: RunningTarget, min_tokens: int) -> None:
    stop = {**LONG, "loop": {"window": 12, "repetitions": 4}, "strings": [NEVER_WHOLE], "min_tokens": min_tokens}
    answer = stream(target, stream_request(sampling=ALWAYS_A, stop=stop))
    assert answer.reason == "FINISH_REASON_LOOP"
    assert answer.token_ids == [LETTER] * max(12, min_tokens)
    assert (answer.text, answer.finished.text) == ("a" * len(answer.token_ids), "")


def test_text_without_repetition_is_no_loop(target: RunningTarget) -> None:
    plain = stream(target, stream_request())
    answer = stream(target, stream_request(stop={**LONG, "max_tokens": 24, "loop": {"window": 12, "repetitions": 4}}))
    assert (answer.token_ids, answer.reason) == (plain.token_ids, "FINISH_REASON_MAX_TOKENS")


def test_a_stop_string_is_part_of_the_text_if_wanted(target: RunningTarget) -> None:
    text = stream(target, stream_request(stop={"max_tokens": 200, "ignore_eos": True})).text
    stop = stop_string_in(text, 60)
    limits = {"max_tokens": 200, "ignore_eos": True, "strings": [stop], "include_stop": True}
    answer = stream(target, stream_request(stop=limits))
    assert answer.text == text[: text.index(stop)] + stop
    assert (answer.reason, answer.finished.stop_string) == ("FINISH_REASON_STOP_STRING", stop)


@pytest.mark.parametrize("min_tokens", [0, 3, 4, 5, 9])
def test_a_stop_string_counts_when_completed_after_min_tokens(target: RunningTarget, min_tokens: int) -> None:
    stop = {**LONG, "strings": ["aaaa"], "min_tokens": min_tokens}
    answer = stream(target, stream_request(sampling=ALWAYS_A, stop=stop, output={"prompt_token_ids": True}))
    num_tokens = max(4, min_tokens + 1)
    assert (answer.token_ids, answer.text) == ([LETTER] * num_tokens, "a" * (num_tokens - 4))
    assert (answer.reason, answer.finished.stop_string) == ("FINISH_REASON_STOP_STRING", "aaaa")


def test_a_continuation_finds_a_stop_string_begun_in_min_tokens(target: RunningTarget) -> None:
    stop = {**LONG, "strings": ["aaaa"], "min_tokens": 5}
    request = stream_request(sampling=ALWAYS_A, stop=stop, output={"prompt_token_ids": True})
    whole = stream(target, request)
    for count in range(len(whole.token_ids) + 1):
        rest = stream(target, continued(request, whole, count))
        assert (rest.token_ids, rest.reason) == (whole.token_ids[count:], whole.reason)
        assert rest.finished.stop_string == "aaaa"
        assert whole.text.endswith(rest.text)


@pytest.mark.parametrize(("include_stop", "text"), [(False, "b"), (True, "ba")])
def test_a_stop_token_within_a_stop_string_ends_as_a_stop_token(
    target: RunningTarget, include_stop: bool, text: str
) -> None:
    """Another token comes first, as the stop token may not: what the stop string has of it stays."""
    stop = {**LONG, "strings": ["ba"], "token_ids": [LETTER], "min_tokens": 1, "include_stop": include_stop}
    sampling = {
        "seed": 5,
        "logit_bias": [{"token_id": LETTER, "bias": 1000.0}, {"token_id": LETTER + 1, "bias": 900.0}],
    }
    answer = stream(target, stream_request(sampling=sampling, stop=stop))
    assert (answer.token_ids, answer.text) == ([LETTER + 1, LETTER], text)
    assert (answer.reason, answer.finished.stop_token_id) == ("FINISH_REASON_STOP_TOKEN", LETTER)
    assert not answer.finished.HasField("stop_string")


@pytest.mark.parametrize(("shown", "text"), [(False, ""), (True, "<|end|>")])
def test_a_stop_string_sees_special_tokens_that_are_hidden(target: RunningTarget, shown: bool, text: str) -> None:
    """The token is an ordinary one here, since the end of sequence is ignored."""
    stop = {**LONG, "strings": ["<|end|>"], "include_stop": True}
    sampling = {"seed": 5, "logit_bias": [{"token_id": END, "bias": 1000.0}]}
    answer = stream(target, stream_request(sampling=sampling, stop=stop, output={"show_special_tokens": shown}))
    assert (answer.token_ids, answer.text, answer.reason) == ([END], text, "FINISH_REASON_STOP_STRING")
    assert answer.finished.stop_string == "<|end|>"


@pytest.mark.parametrize(
    ("output", "include_stop", "text"),
    [({}, True, ""), ({"show_special_tokens": True}, True, "<|end|>"), ({"show_special_tokens": True}, False, "")],
)
def test_a_stop_token_is_part_of_the_text_if_wanted_and_shown(
    target: RunningTarget, output: dict[str, bool], include_stop: bool, text: str
) -> None:
    sampling = {"seed": 5, "logit_bias": [{"token_id": END, "bias": 1000.0}]}
    answer = stream(target, stream_request(sampling=sampling, stop={"include_stop": include_stop}, output=output))
    assert (answer.token_ids, answer.text, answer.reason) == ([END], text, "FINISH_REASON_STOP_TOKEN")
