"""The digest of a request changes with all that its answer depends on, and with nothing else."""

from dataclasses import replace
from typing import Any

import pytest

from services.engine.allowed_tokens import AllowedTokens
from services.engine.forced_tokens import ForcedTokens
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.grammar.trial import GrammarTrial
from services.engine.guidance import Guidance
from services.engine.lora.adapter import Adapter
from services.engine.request import CachePolicy, Loop, OutputOptions, Request, Share, SpeculationPolicy
from services.engine.request_digest import request_digest
from services.engine.sampling_params import SAMPLING_NUMBERS
from services.engine.text.healing import Healing
from services.engine.thinking_budget import ThinkingBudget
from tests.unit.sequences import byte_tokenizer, make_request

REQUEST = make_request(b"Hello", max_tokens=5)
MARKS = {"start": b"<a>", "end": b"</a>", "end_ids": (1,), "tokenizer": byte_tokenizer(), "vocab_size": 257}


def sampled(**fields: Any) -> Request:
    return replace(REQUEST, sampling=replace(REQUEST.sampling, **fields))


def stopped(**fields: Any) -> Request:
    return replace(REQUEST, stops=replace(REQUEST.stops, **fields))


def constrained(*texts: str, **fields: Any) -> Request:
    return replace(REQUEST, grammar=GrammarTrial(GrammarSource(GrammarKind.CHOICE, texts, **fields), 1, False))


def thinking(**fields: Any) -> Request:
    return replace(REQUEST, thinking=ThinkingBudget(**{"max_tokens": 5, "is_begun": True, **MARKS, **fields}))


OTHERS = [
    make_request(b"Hallo", max_tokens=5),
    make_request(b"Hell", max_tokens=5),
    *(sampled(**{number.name: number.kind(number.allowed.minimum + 0.5)}) for number in SAMPLING_NUMBERS[:1]),
    sampled(top_k=1),
    sampled(top_k=2),
    sampled(samplers=("top_k",)),
    sampled(logit_bias={1: 2.0}),
    sampled(logit_bias={2: 1.0}),
    sampled(banned_strings=("a",)),
    sampled(bad_words=((1, 2),)),
    sampled(bad_words=((1,), (2,))),
    sampled(allowed_tokens=AllowedTokens(b"\1")),
    sampled(allowed_tokens=AllowedTokens(b"\2")),
    stopped(max_tokens=6),
    stopped(token_ids=frozenset({1})),
    stopped(strings=("a", "b")),
    stopped(strings=("ab",)),
    stopped(include_stop=True),
    stopped(loop=Loop(window=8, repetitions=2)),
    constrained("a", "b"),
    constrained("ab"),
    constrained("ab", prefers_end=True),
    thinking(),
    thinking(max_tokens=6),
    thinking(is_begun=False),
    thinking(end_ids=(2,)),
    replace(REQUEST, healing=Healing(num_known=1, masked_ids=(1, 2))),
    replace(REQUEST, forced=ForcedTokens({0: AllowedTokens(b"\1")})),
    replace(REQUEST, forced=ForcedTokens({1: AllowedTokens(b"\1")})),
    replace(REQUEST, guidance=Guidance(scale=2.0, negative_prompt=(1,))),
    replace(REQUEST, guidance=Guidance(scale=2.0, negative_prompt=(2,))),
    replace(REQUEST, lora=Adapter("a", "x", 0)),
    replace(REQUEST, lora=Adapter("a", "y", 0)),
    replace(REQUEST, output=OutputOptions(show_special_tokens=True)),
]


def test_what_an_answer_depends_on_changes_the_digest() -> None:
    digests = {*map(request_digest, [REQUEST, *OTHERS])}
    assert len(digests) == 1 + len(OTHERS)


@pytest.mark.parametrize(
    "same",
    [
        replace(REQUEST, request_id="another"),
        replace(REQUEST, received=(1, 2)),
        replace(REQUEST, output=OutputOptions(logprobs=True)),
        replace(REQUEST, speculation=SpeculationPolicy(lookup=False, expected=(1,))),
        replace(REQUEST, cache=CachePolicy(salt="a")),
        replace(REQUEST, share=Share(priority=3)),
        replace(REQUEST, num_samples=2),
        replace(REQUEST, deadline=1.0),
        sampled(seed=77),
        stopped(time_limit=3.0),
    ],
)
def test_what_changes_no_byte_does_not_change_it(same: Request) -> None:
    assert request_digest(same) == request_digest(REQUEST)


def test_it_does_not_depend_on_the_order_of_what_has_none() -> None:
    assert request_digest(sampled(logit_bias={1: 2.0, 3: 4.0})) == request_digest(sampled(logit_bias={3: 4.0, 1: 2.0}))
    trial = replace(constrained("a"), lora=Adapter("a", "x", 0))
    assert request_digest(trial) == request_digest(replace(trial, lora=Adapter("a", "x", 5)))
