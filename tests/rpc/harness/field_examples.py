"""Good and bad values for every field of a request, and what shows that a good one has its effect."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outrider.v1 import common_pb2, generation_pb2
from tests.harness.models.checkpoints import SPECIAL_TOKENS, VOCAB_SIZE
from tests.rpc.harness.requests import Streamed

COUNT = 12  # tokens of an answer
ALWAYS, NEVER = common_pb2.SPECULATION_MODE_ALWAYS, common_pb2.SPECULATION_MODE_NEVER
LONG = {"token_ids": {"ids": [*range(30, 100)]}}  # two blocks of the cache and a bit
LORA = "tuned"  # an adapter of the server that is asked
X, END = 91, 1  # a token of one letter, and the model's own end
HELD, HELD_IDS = "held", [*range(30, 40)]  # a session that the server has, and its tokens
OFTEN = {"logit_bias": [{"token_id": X, "bias": 100.0}]}
ENDS = {"logit_bias": [{"token_id": END, "bias": 100.0}]}

Fields = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What came of a good value: streamed, then asked for as a whole; and of the same request without it."""

    streamed: Streamed
    whole: generation_pb2.GenerateResponse
    plain: Streamed

    @property
    def ids(self) -> list[int]:
        """Of the answer."""
        return self.streamed.token_ids

    def each_record(self, holds: Callable[[common_pb2.TokenRecord], bool]) -> bool:
        """Whether the condition holds for the record of every token."""
        return len(self.streamed.records) == len(self.ids) > 0 and all(map(holds, self.streamed.records))

    @property
    def differs(self) -> bool:
        """Whether other tokens came than without it."""
        return len(self.ids) == COUNT and self.ids != self.plain.token_ids

    @property
    def is_shifted(self) -> bool:
        """Whether tokens were drawn from another distribution than the model's own."""
        return any(abs(record.raw_logprob - record.processed_logprob) > 0.01 for record in self.streamed.records)


@dataclass(frozen=True)
class Good:
    """Fields of a request, or how to make them after the same request without them, and what shows their effect."""

    fields: Fields | Callable[[Streamed], Fields]
    shows: Callable[[Seen], bool]


def continued_after(count: int) -> Callable[[Streamed], Fields]:
    """A continuation after so many tokens."""

    def fields(plain: Streamed) -> Fields:
        received = {"token_ids": plain.token_ids[:count], "fingerprint": plain.started.fingerprint}
        return {"prompt": {"token_ids": {"ids": plain.started.prompt_token_ids}}, "continue_from": received}

    return fields


def conversation(role: str, content: str) -> Fields:
    """A conversation of one message, whose ids are sent back."""
    messages = [{"role": role, "content": content}]
    return {"prompt": {"chat": {"messages": messages}}, "output": {"prompt_token_ids": True}}


def drawn_with(**sampling: Any) -> Fields:
    """Tokens drawn in a way of their own, and how likely they were."""
    return {"sampling": sampling, "output": {"logprobs": True}}


def is_certain(seen: Seen) -> bool:
    """Whether nothing was left to chance."""
    return seen.each_record(lambda record: record.processed_logprob == 0.0 > record.raw_logprob)


GOOD = {
    "prompt.text": Good({"prompt": {"text": "def main"}}, lambda seen: seen.differs),
    "prompt.token_ids.ids": Good(
        {"prompt": {"token_ids": {"ids": [7, 8, 9]}}, "output": {"prompt_token_ids": True}},
        lambda seen: [*seen.streamed.started.prompt_token_ids] == [7, 8, 9],
    ),
    "prompt.chat.messages.role": Good(
        conversation("user", "a"),
        lambda seen: SPECIAL_TOKENS.index("<|user|>") in seen.streamed.started.prompt_token_ids,
    ),
    "prompt.chat.messages.content": Good(
        conversation("user", "x" * 40), lambda seen: list(seen.streamed.started.prompt_token_ids).count(X) == 40
    ),
    "prompt.add_special_tokens": Good(
        {"prompt": {"add_special_tokens": False}},
        lambda seen: seen.streamed.started.prompt_tokens == seen.plain.started.prompt_tokens - 1,
    ),
    "prompt.heal": Good(
        {"prompt": {"text": "import os ", "heal": True}, "output": {"token_records": True}},
        lambda seen: (
            seen.streamed.text != b"".join(one.bytes for one in seen.streamed.records).decode(errors="replace")
        ),
    ),
    "sampling.temperature": Good(drawn_with(temperature=0.0), lambda seen: seen.differs),
    "sampling.top_k": Good(drawn_with(top_k=1), is_certain),
    "sampling.top_p": Good(drawn_with(top_p=1e-6), is_certain),
    "sampling.min_p": Good(drawn_with(min_p=1.0), is_certain),
    "sampling.repetition_penalty": Good(drawn_with(repetition_penalty=2.0), lambda seen: seen.is_shifted),
    "sampling.frequency_penalty": Good(drawn_with(frequency_penalty=2.0), lambda seen: seen.is_shifted),
    "sampling.presence_penalty": Good(drawn_with(presence_penalty=-2.0), lambda seen: seen.is_shifted),
    "sampling.logit_bias.token_id": Good({"sampling": OFTEN}, lambda seen: seen.ids == [X] * COUNT),
    "sampling.logit_bias.bias": Good({"sampling": OFTEN}, lambda seen: seen.streamed.text == "x" * COUNT),
    "sampling.seed": Good({"sampling": {"seed": 6}}, lambda seen: seen.streamed.started.seed == 6 and seen.differs),
    "sampling.banned_strings": Good(
        {"sampling": {**OFTEN, "banned_strings": ["Xxx"]}},
        lambda seen: "xxx" not in seen.streamed.text and len(seen.whole.suppressed) > 0,
    ),
    "sampling.allowed_token_ids": Good(
        {"sampling": {"seed": 5, "allowed_token_ids": range(70, 80)}},
        lambda seen: seen.differs and len({*seen.ids}) > 1 and {*seen.ids} <= {*range(70, 80)},
    ),
    "stop.strings": Good(
        {"sampling": OFTEN, "stop": {"strings": ["xxx"]}}, lambda seen: seen.streamed.finished.stop_string == "xxx"
    ),
    "stop.token_ids": Good(
        {"sampling": OFTEN, "stop": {"token_ids": [X]}}, lambda seen: seen.streamed.finished.stop_token_id == X
    ),
    "stop.max_tokens": Good({"stop": {"max_tokens": 3}}, lambda seen: seen.ids == seen.plain.token_ids[:3]),
    "stop.min_tokens": Good(
        {"sampling": OFTEN, "stop": {"token_ids": [X], "min_tokens": 5}},
        lambda seen: seen.ids.index(X) == len(seen.ids) - 1 == 5,
    ),
    "stop.max_thinking_tokens": Good(
        {"prompt": {"text": "a<think>b"}, "stop": {"max_tokens": COUNT, "max_thinking_tokens": 0}},
        lambda seen: seen.streamed.text.startswith("</think>") and len(seen.ids) == COUNT,
    ),
    "stop.ignore_eos": Good(
        {"sampling": ENDS, "stop": {"ignore_eos": False}}, lambda seen: seen.streamed.finished.stop_token_id == END
    ),
    "stop.include_stop": Good(
        {"sampling": OFTEN, "stop": {"strings": ["xxx"], "include_stop": True}},
        lambda seen: seen.streamed.text == "xxx",
    ),
    "stop.time_limit": Good(
        {"stop": {"time_limit": {"nanos": 1}}}, lambda seen: seen.streamed.reason == "FINISH_REASON_TIME_LIMIT"
    ),
    "stop.loop.window": Good(
        {"sampling": OFTEN, "stop": {"loop": {"window": 9, "repetitions": 2}}}, lambda seen: seen.ids == [X] * 9
    ),
    "stop.loop.repetitions": Good(
        {"sampling": OFTEN, "stop": {"loop": {"window": 6, "repetitions": 6}}},
        lambda seen: seen.streamed.reason == "FINISH_REASON_LOOP",
    ),
    "output.token_records": Good(
        {"output": {"token_records": True}}, lambda seen: seen.each_record(lambda record: bool(record.bytes))
    ),
    "output.logprobs": Good(
        {"output": {"logprobs": True}}, lambda seen: seen.each_record(lambda record: record.raw_logprob < 0)
    ),
    "output.top_candidates": Good(
        {"output": {"top_candidates": 3}}, lambda seen: seen.each_record(lambda record: len(record.candidates) == 3)
    ),
    "output.prompt_token_ids": Good(
        {"output": {"prompt_token_ids": True}},
        lambda seen: len(seen.whole.started.prompt_token_ids) == seen.whole.started.prompt_tokens,
    ),
    "output.show_special_tokens": Good(
        {"sampling": ENDS, "output": {"show_special_tokens": True}},
        lambda seen: seen.streamed.text == SPECIAL_TOKENS[END] * COUNT,
    ),
    "output.pass_reports": Good(
        {"output": {"pass_reports": True}}, lambda seen: sum(one.tokens for one in seen.whole.pass_reports) == COUNT
    ),
    "output.rank": Good({"output": {"rank": True}}, lambda seen: seen.each_record(lambda record: record.rank > 0)),
    "output.entropy": Good(
        {"output": {"entropy": True}}, lambda seen: seen.each_record(lambda record: record.entropy > 0)
    ),
    "output.logits": Good(
        {"output": {"logits": True, "logits_token_ids": [7]}},
        lambda seen: seen.each_record(lambda record: len(record.logits.data) == 4),
    ),
    "output.logits_token_ids": Good(
        {"output": {"logits": True, "logits_token_ids": [7, 3]}},
        lambda seen: seen.each_record(lambda record: [*record.logits.shape] == [2]),
    ),
    "output.prompt_logprobs": Good(
        {"output": {"prompt_logprobs": True}},
        lambda seen: len(seen.whole.prompt_records) == seen.whole.started.prompt_tokens,
    ),
    "speculation.mode": Good(
        {"speculation": {"mode": NEVER}},
        lambda seen: (
            seen.streamed.finished.speculation.no_speculation_reason == common_pb2.NO_SPECULATION_REASON_FORBIDDEN
        ),
    ),
    "speculation.num_predictions": Good(
        {"sampling": OFTEN, "speculation": {"mode": ALWAYS, "num_predictions": 2}},
        lambda seen: len(seen.streamed.finished.speculation.by_position) == 2,
    ),
    "speculation.lookup": Good(
        {"sampling": OFTEN, "speculation": {"mode": ALWAYS, "lookup": False}},
        lambda seen: seen.streamed.finished.speculation.predicted == 0,
    ),
    "speculation.expected.ids": Good(
        lambda plain: {"speculation": {"mode": ALWAYS, "expected": {"ids": plain.token_ids}}},
        lambda seen: seen.streamed.finished.speculation.accepted > 0 and seen.streamed.finished.speculation.passes < 4,
    ),
    "speculation.expected_text": Good(
        lambda plain: {"speculation": {"mode": ALWAYS, "expected_text": plain.text}},
        lambda seen: seen.streamed.finished.speculation.accepted > 0,
    ),
    "cache.prefix": Good(
        {"prompt": LONG, "cache": {"prefix": False}}, lambda seen: seen.whole.started.cached_tokens == 0
    ),
    "cache.salt": Good(
        {"prompt": LONG, "cache": {"salt": "a"}},
        lambda seen: (seen.streamed.started.cached_tokens, seen.whole.started.cached_tokens) == (0, 64),
    ),
    "continue_from.token_ids": Good(continued_after(5), lambda seen: seen.ids == seen.plain.token_ids[5:]),
    "continue_from.fingerprint": Good(continued_after(0), lambda seen: seen.ids == seen.plain.token_ids),
    "request_id": Good({"request_id": "mine"}, lambda seen: seen.streamed.started.request_id == "mine"),
    "priority": Good({"priority": -3}, lambda seen: seen.ids == seen.plain.token_ids),  # when, never what
    "model": Good(
        lambda plain: {"model": plain.started.model},
        lambda seen: (seen.streamed.started.model, seen.ids) == (seen.plain.started.model, seen.plain.token_ids),
    ),
    "lora": Good({"lora": LORA}, lambda seen: seen.differs and seen.streamed.started.model == LORA),
    "grammar.json_schema": Good({"grammar": {"json_schema": '{"const": 12}'}}, lambda seen: seen.streamed.text == "12"),
    "grammar.regex": Good(
        {"grammar": {"regex": "[ab]{9}"}}, lambda seen: re.fullmatch("[ab]{9}", seen.streamed.text) is not None
    ),
    "grammar.lark": Good({"grammar": {"lark": 'start: "x" "y"'}}, lambda seen: seen.streamed.text == "xy"),
    "grammar.choice.texts": Good(
        {"grammar": {"choice": {"texts": ["left", "right"]}}}, lambda seen: seen.streamed.text in {"left", "right"}
    ),
    **dict.fromkeys(
        ("grammar.reasoning.start", "grammar.reasoning.end"),
        Good(
            {"grammar": {"choice": {"texts": ["x"]}, "reasoning": {"start": "y", "end": "z"}}},
            lambda seen: re.fullmatch("(?s:y.*)|x", seen.streamed.text) is not None,
        ),
    ),
    "grammar.reasoning.prefix": Good(
        {"grammar": {"choice": {"texts": ["x"]}, "reasoning": {"start": "y", "end": "z", "prefix": "w"}}},
        lambda seen: re.fullmatch("(?s:y.*)|wx", seen.streamed.text) is not None,
    ),
    **{
        f"output.tools.{name}": Good(
            {"output": {"message_deltas": True, "tools": [{"name": "f", name: value}]}},
            lambda seen: seen.whole.message.role == "assistant",  # the types of arguments: tests/rpc/prompts
        )
        for name, value in (("name", "g"), ("description", "a"), ("parameters", "{}"), ("strict", True))
    },
    "grammar.reasoning.begun": Good(
        {"grammar": {"regex": "x", "reasoning": {"end": "z", "begun": True}}, "stop": {"max_tokens": 9}},
        lambda seen: seen.streamed.text[:1] not in ("", "x"),
    ),
    "grammar.prefer_end": Good(
        {"grammar": {"regex": "[ab]{3,90}", "prefer_end": True}, "stop": {"token_ids": [END]}},
        lambda seen: 3 <= len(seen.streamed.text) <= 4,  # its last token may have two letters
    ),
    "num_samples": Good({"num_samples": 2}, lambda seen: len(seen.whole.further_samples) == 1),
    "session": Good(
        {"session": HELD, "output": {"prompt_token_ids": True}},
        lambda seen: [*seen.streamed.started.prompt_token_ids][: len(HELD_IDS)] == HELD_IDS,
    ),
    "best_of": Good(
        {"best_of": 8, "sampling": {"temperature": 1.0}},
        lambda seen: seen.whole.started.seed == seen.streamed.started.seed != seen.plain.started.seed,
    ),
}

# Beside those of BAD: what only Generate refuses, and continuations, which name what a server has said.
BAD_FOR_GENERATE: dict[str, Fields | Callable[[Streamed], Fields]] = {
    "model": {"model": "another"},
    "output.logits": {"output": {"logits": True}},
    "continue_from.token_ids": lambda plain: {
        "continue_from": {"token_ids": [VOCAB_SIZE], "fingerprint": plain.started.fingerprint}
    },
    "continue_from.fingerprint": {"continue_from": {"fingerprint": ""}},
    "session": lambda plain: {"session": HELD, "continue_from": {"fingerprint": plain.started.fingerprint}},
    "prompt.heal": {"prompt": {"heal": True}, "grammar": {"regex": "a"}},
    "grammar.prefer_end": {"grammar": {"regex": "a", "prefer_end": True}, "stop": {"min_tokens": 1}},
    "grammar.reasoning.start": {"grammar": {"regex": "a", "reasoning": {"start": "a" * 65, "end": "b"}}},
    "grammar.reasoning.end": {"grammar": {"regex": "a", "reasoning": {"end": "b" * 65}}},
    "grammar.reasoning.prefix": {
        "grammar": {"regex": "a", "reasoning": {"start": "a", "end": "b", "prefix": "b" * 65}}
    },
    "output.tools.name": {"output": {"tools": [{"name": "a b"}]}},
    "output.tools.parameters": {"output": {"tools": [{"name": "a", "parameters": "{"}]}},
}
TOLD_BY_PARENT = {"prompt.chat.messages.role": "prompt.chat.messages", "grammar.choice.texts": "grammar.choice"}
NEVER_BAD = {
    **dict.fromkeys(
        (
            "prompt.add_special_tokens",
            "stop.ignore_eos",
            "stop.include_stop",
            "output.token_records",
            "output.logprobs",
            "output.prompt_token_ids",
            "output.show_special_tokens",
            "output.pass_reports",
            "output.rank",
            "output.entropy",
            "output.prompt_logprobs",
            "cache.prefix",
            "grammar.reasoning.begun",
            "output.tools.strict",
        ),
        "true and false are both allowed, whatever else is asked",
    ),
    "sampling.seed": "all that 64 bits can hold is allowed",
    "prompt.chat.messages.content": "any text may be said",
    "output.tools.description": "any text may be said",
}
