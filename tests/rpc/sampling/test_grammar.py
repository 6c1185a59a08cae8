"""Texts that follow a grammar over the real service: whole and continued, with a draft that knows it and without."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import common_pb2, generation_pb2
from outrider.v1.generation_pb2 import StreamGenerateRequest
from services.draft_protocol.conversions import write_grammar
from services.engine.text.tokenizer import Tokenizer
from tests.harness.grammar.grammars import SOURCES, follows
from tests.harness.models.checkpoints import byte_level_tokenizer
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import GREEDY, PROMPT, REFUSED, SAMPLED, Link, RunningDraft
from tests.rpc.harness.requests import Streamed, as_unary, continued, stream, stream_request, violations

TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())
END = 1
ALWAYS = {"mode": common_pb2.SPECULATION_MODE_ALWAYS, "num_predictions": 4}
WORDS = r"[a-z]{2,6}( [a-z]{2,6}){3,5}[.!]"
ENDLESS = r"([a-z]{2,5}[,;] )*"
CHOICE = SOURCES["choice"].texts
GRAMMARS = {name: write_grammar(source) for name, source in SOURCES.items()}


def request(grammar: common_pb2.Grammar | dict[str, Any], **fields: Any) -> StreamGenerateRequest:
    """A request for up to 200 tokens, with the grammar's end for an end."""
    defaults = {"sampling": {"seed": 3, "temperature": 0.7}, "stop": {"max_tokens": 200}, "output": {"logprobs": True}}
    return stream_request(**{**defaults, **fields}, grammar=grammar)


def essence(answer: Streamed) -> tuple[Any, ...]:
    """All of an answer that must be the same, whatever was predicted."""
    bits = [(record.id, record.raw_logprob, record.processed_logprob) for record in answer.records]
    return answer.token_ids, answer.text, bits, answer.reason, answer.finished.usage


@pytest.fixture(scope="module")
def drafted(model: Path, shared_draft: RunningDraft) -> Iterator[RunningTarget]:
    """A server whose draft has the target's own model."""
    with target_server(model, drafts=[shared_draft.address]) as running:
        running.wait_for_draft()
        yield running
        running.assert_all_free()
    shared_draft.assert_all_free()


@pytest.mark.parametrize("name", sorted(GRAMMARS.keys() - {"any json"}))
def test_a_text_follows_its_grammar_and_ends_where_that_does(target: RunningTarget, name: str) -> None:
    texts = set()
    for seed in range(3):
        wanted = request(GRAMMARS[name], sampling={"seed": seed, "temperature": 2.0})
        answer = stream(target, wanted)
        assert answer.reason == "FINISH_REASON_STOP_TOKEN"
        assert follows(name, answer.text), answer.text
        texts.add(answer.text)
    whole = target.stub.Generate(as_unary(wanted))
    assert (whole.text, list(whole.token_ids)) == (answer.text, answer.token_ids)
    assert len(texts) > 1
    assert not follows("regex", stream(target, stream_request()).text)


def test_a_forced_token_is_certain_with_the_models_raw_logprob(target: RunningTarget) -> None:
    answer = stream(target, request({"choice": {"texts": ["zzzz"]}}, output={"top_candidates": 5}))
    assert answer.text == "zzzz"
    assert all(record.processed_logprob == 0 and record.raw_logprob < -1 for record in answer.records)
    assert all([other.id for other in record.candidates] == [record.id] for record in answer.records)


@pytest.mark.parametrize("stop", [{"ignore_eos": True}, {"min_tokens": 100}])
def test_a_complete_text_without_a_stop_ends_with_no_candidates(target: RunningTarget, stop: dict[str, Any]) -> None:
    plain = stream(target, request(GRAMMARS["choice"]))
    answer = stream(target, request(GRAMMARS["choice"], stop={"max_tokens": 200, **stop}))
    assert answer.reason == "FINISH_REASON_NO_CANDIDATES"
    assert answer.text in CHOICE
    assert answer.token_ids[:1] == plain.token_ids[:1]


def test_stop_strings_and_max_tokens_cut_the_text(target: RunningTarget) -> None:
    whole = stream(target, request({"regex": WORDS})).text
    cut = stream(target, request({"regex": WORDS}, stop={"strings": [whole[4:6]]}))
    assert (cut.text, cut.reason) == (whole[: whole.index(whole[4:6])], "FINISH_REASON_STOP_STRING")
    short = stream(target, request({"regex": WORDS}, stop={"max_tokens": 3}))
    assert whole.startswith(short.text)
    assert short.reason == "FINISH_REASON_MAX_TOKENS"


def test_every_cut_continues_with_the_same_bytes(target: RunningTarget) -> None:
    items = '"items": {"enum": [1, "a"]}, "minItems": 2, "maxItems": 3'
    schema = f'{{"type": "array", {items}, "x-guidance": {{"whitespace_flexible": false}}}}'
    wanted = request({"json_schema": schema}, output={"logprobs": True, "prompt_token_ids": True})
    whole = stream(target, wanted)
    assert len(whole.token_ids) > 5
    for count in range(len(whole.token_ids) + 1):
        rest = stream(target, continued(wanted, whole, count))
        assert [*whole.token_ids[:count], *rest.token_ids] == whole.token_ids
        assert whole.text.endswith(rest.text)
        assert whole.records[count:] == rest.records
        assert rest.reason == whole.reason
        assert rest.finished.usage.completion_tokens == whole.finished.usage.completion_tokens


def test_received_tokens_that_the_grammar_forbids_are_refused(target: RunningTarget) -> None:
    wanted = request({"regex": WORDS}, output={"prompt_token_ids": True})
    whole = stream(target, wanted)
    rest = continued(wanted, whole, 3)
    rest.continue_from.token_ids[2] = TOKENIZER.encode("!", add_special_tokens=False)[0]
    with pytest.raises(grpc.RpcError) as failure:
        stream(target, rest)
    said = violations(failure.value)
    assert list(said) == ["continue_from.token_ids"]
    assert "the grammar forbids the token at 2" in said["continue_from.token_ids"]


def test_no_grammar_with_healing(target: RunningTarget) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        stream(target, stream_request({"text": "a b", "heal": True}, grammar={"regex": "a"}))
    assert violations(failure.value) == {
        "prompt.heal": "is true; allowed: false, or not set, with a grammar",
        "grammar": "is set; allowed: not to be, with prompt.heal",
    }


def test_the_grammar_limit_is_reported_and_can_be_reached(target: RunningTarget) -> None:
    limit = target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest()).limits.max_grammar_bytes
    texts = [f"{i:4}" for i in range(1000)]
    answer = stream(target, request({"choice": {"texts": texts}}))
    assert answer.text in texts
    with pytest.raises(grpc.RpcError) as failure:
        stream(target, request({"choice": {"texts": ["x" * 1024] * (limit // 1024) + ["y"]}}))
    assert violations(failure.value) == {"grammar.choice": f"has {limit + 1} bytes; allowed: at most {limit}"}


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_draft_with_the_grammar_predicts_within_it(
    target: RunningTarget, drafted: RunningTarget, temperature: float
) -> None:
    """It has the target's own model: only what it does not know could make it wrong."""
    for seed in range(40):  # a slow draft's predictions may come too late for some answers
        wanted = request(
            {"regex": ENDLESS},
            sampling={"seed": seed, "temperature": temperature},
            stop={"max_tokens": 80, "ignore_eos": True},
            speculation={**ALWAYS, "lookup": False},
        )
        answer = stream(drafted, wanted)
        assert essence(answer) == essence(stream(target, wanted))
        figures = answer.finished.speculation
        assert figures.predicted == figures.accepted
        if seed and figures.accepted:
            return
    pytest.fail("no prediction was accepted")


def test_a_draft_follows_the_grammar_through_commits_and_rewinds(link: Link) -> None:
    link.begin(PROMPT, 6, grammar={"regex": WORDS}, masked_token_ids=[END])
    first = link.predictions(6, position=len(PROMPT))
    assert re.match("[a-z]{2,6}", text_of(first))
    (other,) = TOKENIZER.encode("z", add_special_tokens=False)
    link.commit(len(PROMPT), [other])
    second = link.predictions(6, position=len(PROMPT) + 1)
    assert re.match("[a-z]{2,6}[ .!]?", text_of([other, *second]))
    link.commit(len(PROMPT), TOKENIZER.encode("ab ab ab ab", add_special_tokens=False))
    third = link.next().predict.token_ids
    assert text_of(third)[0] in "abcdefghijklmnopqrstuvwxyz .!"


def text_of(token_ids: Any) -> str:
    return b"".join(map(TOKENIZER.token_bytes, token_ids)).decode()


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
def test_a_draft_stops_after_a_complete_text(link: Link, sampling: dict[str, Any]) -> None:
    link.begin(PROMPT, 20, sampling=sampling, grammar={"choice": {"texts": ["a", "b"]}}, masked_token_ids=[END])
    said = link.predictions(2, position=len(PROMPT))
    assert text_of(said[:1]) in {"a", "b"}
    assert said[1] == END
    link.assert_silent()


def test_a_draft_refuses_a_grammar_that_it_does_not_understand(link: Link) -> None:
    link.begin(PROMPT, 2, grammar={"regex": "a("})
    assert link.released() == (1, REFUSED)
    link.begin(PROMPT, 1, sequence_id=2, grammar={"choice": {}})
    assert link.released() == (2, REFUSED)
