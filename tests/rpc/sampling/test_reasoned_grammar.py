"""A grammar holds for the text after the model's reasoning: with a draft and without, whole and continued."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import common_pb2
from tests.harness.models.checkpoints import CHAT_TEMPLATE, copy_of
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import RunningDraft
from tests.rpc.harness.requests import Streamed, as_unary, continued, stream, stream_request, violations

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"name": {"enum": ["red", "green"]}, "is_dark": {"type": "boolean"}},
        "required": ["name", "is_dark"],
        "additionalProperties": False,
        "x-guidance": {"whitespace_flexible": False},
    }
)
GRAMMARS: dict[str, tuple[dict[str, Any], Any]] = {
    "json_schema": ({"json_schema": SCHEMA}, lambda text: json.loads(text).keys() == {"name", "is_dark"}),
    "regex": ({"regex": "[0-9]/[0-9]"}, lambda text: len(text) == 3),
    "lark": ({"lark": 'start: a "}" // }\na: /[{]/\n'}, lambda text: text == "{}"),
    "choice": ({"choice": {"texts": ["yes", "no"]}}, lambda text: text in ("yes", "no")),
}
NEVER = {"mode": common_pb2.SPECULATION_MODE_NEVER}
ALWAYS = {"mode": common_pb2.SPECULATION_MODE_ALWAYS, "num_predictions": 4}
USER = {"role": "user", "content": "Which?"}


@pytest.fixture(scope="module")
def thinking_model(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose template begins a thought."""
    template = CHAT_TEMPLATE.replace("{%- if add_generation_prompt -%}<|assistant|>", "\\g<0><think>\n")
    template = template.replace("\\g<0>", "{%- if add_generation_prompt -%}<|assistant|>")
    return copy_of(model, tmp_path_factory.mktemp("thinking"), model.name, chat_template=template)


@pytest.fixture(scope="module")
def thinker(thinking_model: Path, shared_draft: RunningDraft) -> Iterator[RunningTarget]:
    """Its server, which has a draft."""
    parsers = {"reasoning_parser": "think"}
    with target_server(thinking_model, drafts=[shared_draft.address], parsers=parsers, stream_capacity=1) as running:
        running.wait_for_draft()
        yield running
        running.assert_all_free()


def request(name: str, seed: int = 1, **fields: Any) -> Any:
    grammar, _ = GRAMMARS[name]
    wanted: dict[str, Any] = {
        "prompt": {"chat": {"messages": [USER]}},
        "grammar": grammar,
        "sampling": {"seed": seed, "temperature": 0.7},
        "stop": {"max_tokens": 200, "max_thinking_tokens": 9},
        "output": {"prompt_token_ids": True, "message_deltas": True},
    }
    return stream_request(**{**wanted, **fields})


def parts(answer: Streamed) -> tuple[str, str]:
    deltas = [delta for chunk in answer.chunks for delta in chunk.message_deltas] + [*answer.finished.message_deltas]
    return "".join(delta.reasoning for delta in deltas), "".join(delta.content for delta in deltas)


@pytest.mark.parametrize("name", GRAMMARS)
def test_the_grammar_holds_for_the_text_after_the_thought(thinker: RunningTarget, name: str) -> None:
    _, is_right = GRAMMARS[name]
    for seed in range(2):
        alone, drafted = (stream(thinker, request(name, seed, speculation=mode)) for mode in (NEVER, ALWAYS))
        reasoning, content = parts(alone)
        assert reasoning
        assert is_right(content), content
        assert alone.reason == "FINISH_REASON_STOP_TOKEN"
        assert (alone.token_ids, alone.text) == (drafted.token_ids, drafted.text)
    assert thinker.stub.Generate(as_unary(request(name, seed))).message.content == content


def test_predictions_are_made_within_the_grammar_too(thinker: RunningTarget) -> None:
    accepted = rejected = 0
    for seed in range(40):  # a slow draft's predictions may come too late for some answers
        figures = stream(thinker, request("json_schema", seed, speculation=ALWAYS)).finished.speculation
        accepted, rejected = accepted + figures.accepted, rejected + figures.predicted - figures.accepted
        if seed >= 3 and accepted and rejected:
            return
    pytest.fail(f"{accepted} predictions were accepted, {rejected} rejected")


def test_every_cut_continues_with_the_grammar_of_the_start(thinker: RunningTarget) -> None:
    stop = {"max_tokens": 200, "max_thinking_tokens": 3}
    wanted = request("regex", stop=stop, output={"prompt_token_ids": True, "logprobs": True}, speculation=NEVER)
    whole = stream(thinker, wanted)
    assert whole.started.grammar.reasoning == common_pb2.Reasoning(start="<think>", end="</think>", begun=True)
    for count in range(len(whole.token_ids) + 1):
        rest = continued(wanted, whole, count)
        rest.grammar.CopyFrom(whole.started.grammar)
        streamed = stream(thinker, rest)
        assert whole.records[count:] == streamed.records
        assert (streamed.reason, whole.text.endswith(streamed.text)) == (whole.reason, True)


def test_without_a_conversation_the_grammar_holds_from_the_start(thinker: RunningTarget) -> None:
    stop = {"max_tokens": 200}
    answer = stream(thinker, request("regex", prompt={"text": "<think>"}, stop=stop))
    assert len(answer.text) == 3
    assert not answer.started.HasField("grammar")


def test_a_conversation_without_reasoning_before_its_form(thinker: RunningTarget) -> None:
    grammar = {**GRAMMARS["regex"][0], "reasoning": {}}
    answer = stream(thinker, request("regex", grammar=grammar, stop={"max_tokens": 200}))
    assert len(answer.text) == 3


def test_a_thought_that_the_prompt_has_ended_is_not_begun_again(thinker: RunningTarget) -> None:
    messages = [USER, {"role": "assistant", "content": "<think>Hm.</think>"}]
    prompt = {"chat": {"messages": messages, "continue_final_message": True}}
    answer = stream(thinker, request("regex", prompt=prompt))
    assert len(answer.text) == 3


@pytest.mark.parametrize("mark", ["start", "end"])
def test_a_mark_that_is_too_long_is_refused(thinker: RunningTarget, mark: str) -> None:
    reasoning = {"start": "a", "end": "b", mark: "x" * 65}
    with pytest.raises(grpc.RpcError) as failure:
        stream(thinker, request("regex", grammar={"regex": "a", "reasoning": reasoning}))
    assert violations(failure.value) == {f"grammar.reasoning.{mark}": "has 65 bytes; allowed: at most 64"}


def test_given_marks_allow_a_thought_before_the_text(thinker: RunningTarget) -> None:
    grammar = {"choice": {"texts": ["yes"]}, "reasoning": {"start": "s", "end": "o"}}
    stop, sampling = {"max_tokens": 60}, {"temperature": 2.0}
    fields: dict[str, Any] = {"prompt": {"text": "a"}, "grammar": grammar, "stop": stop}
    answers = [stream(thinker, request("regex", **fields, sampling={**sampling, "seed": seed})) for seed in range(20)]
    texts = {answer.text for answer in answers if answer.reason == "FINISH_REASON_STOP_TOKEN"}
    assert "yes" in texts
    assert any(text.startswith("s") for text in texts)
    assert all(re.fullmatch(r"(s[^o]*o\n{0,2})?yes", text) for text in texts)


def test_a_form_that_other_rules_forbid_is_not_complete(thinker: RunningTarget) -> None:
    grammar = {"regex": "zebra[0-9]", "reasoning": {}}
    wanted = request("regex", grammar=grammar, stop={"max_tokens": 200})
    wanted.sampling.banned_strings.append("ebra")
    answer = stream(thinker, wanted)
    assert answer.reason == "FINISH_REASON_GRAMMAR_INCOMPLETE"


def test_reasoning_tokens_are_counted_alike_in_every_mode(thinker: RunningTarget) -> None:
    wanted = request("regex", output={"prompt_token_ids": True})
    whole = stream(thinker, wanted)
    count = whole.finished.usage.reasoning_tokens
    assert 9 < count < whole.finished.usage.completion_tokens
    assert thinker.stub.Generate(as_unary(wanted)).finished.usage.reasoning_tokens == count
    assert all(
        stream(thinker, request("regex", speculation=mode)).finished.usage.reasoning_tokens == count
        for mode in (NEVER, ALWAYS)
    )
    for received in (1, count - 1, count, count + 1, len(whole.token_ids)):
        rest = continued(wanted, whole, received)
        rest.grammar.CopyFrom(whole.started.grammar)
        assert stream(thinker, rest).finished.usage.reasoning_tokens == count


def test_reasoning_that_has_not_ended_is_the_whole_answer(thinker: RunningTarget) -> None:
    usage = stream(thinker, request("regex", stop={"max_tokens": 5})).finished.usage
    assert usage.reasoning_tokens == usage.completion_tokens == 5
