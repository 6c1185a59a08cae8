"""The prefix cache over gRPC: what is found is reported, a request can opt out, and the bytes are the same."""

from pathlib import Path
from typing import Any

import pytest

from services.draft.engine import DraftEngine
from services.draft.multi_step_runner import ScheduledTokens
from services.draft_protocol.conversions import read_cache
from services.draft_protocol.messages import Open
from services.draft_protocol.requests import write_request
from services.engine.decoder.native import BLOCK_SIZE
from services.engine.decoder.native.testing import poison
from services.engine.request import CachePolicy
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import SAMPLED, Link, RunningDraft, hello_of
from tests.rpc.harness.requests import Streamed, stream, stream_request
from tests.unit.sequences import make_request

SAMPLING = {"seed": 5, "temperature": 0.9}


def ids(first: int, count: int = 70) -> list[int]:
    """A prompt that no other test begins with."""
    return [*range(first, first + count)]


def answer(target: RunningTarget, prompt: list[int], **cache: Any) -> Streamed:
    return stream(target, stream_request(prompt, sampling=SAMPLING, output={"logprobs": True}, cache=cache))


def found(answer: Streamed) -> int:
    """Cached tokens, as both the first and the last message report them."""
    assert answer.started.cached_tokens == answer.finished.usage.cached_tokens
    return answer.started.cached_tokens


def test_the_second_request_finds_the_blocks_of_the_first(target: RunningTarget) -> None:
    first, second = (answer(target, ids(20)) for _ in range(2))
    assert (found(first), found(second)) == (0, 2 * BLOCK_SIZE)
    assert (second.text, second.records) == (first.text, first.records)


def test_a_request_without_prefix_cache_neither_finds_nor_stores(target: RunningTarget) -> None:
    answers = [answer(target, ids(120), prefix=prefix) for prefix in (False, True, False, True)]
    assert [found(one) for one in answers] == [0, 0, 0, 2 * BLOCK_SIZE]
    assert all(one.records == answers[0].records for one in answers)


def test_cached_blocks_are_found_by_the_same_salt_only(target: RunningTarget) -> None:
    answers = [answer(target, ids(220), **cache) for cache in ({"salt": "a"}, {"salt": "b"}, {}, {"salt": "a"})]
    assert [found(one) for one in answers] == [0, 0, 0, 2 * BLOCK_SIZE]


def test_a_server_may_have_it_switched_off(model: Path) -> None:
    with target_server(model, prefix_cache=False) as target:
        assert [found(answer(target, ids(20))) for _ in range(2)] == [0, 0]
        target.assert_all_free()


async def test_the_draft_gets_the_policy_of_the_request() -> None:
    policy = CachePolicy(prefix=False, salt="mine")
    opened = write_request(Open.of(1, make_request(cache=policy))).open
    assert read_cache(opened.cache) == policy


def watch(engine: DraftEngine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tokens that the draft computes from now on, step by step; all that it cannot find is NaN before each."""
    decoder, blocks, run_ahead = engine.model.decoder, engine.model.blocks, engine._drafter._runner
    computed: list[int] = []
    extend = run_ahead.extend

    def watched(batch: list[ScheduledTokens]) -> list[list[int]]:
        poison(decoder, blocks.empty)
        computed.append(sum(scheduled.num_tokens for scheduled in batch))
        return extend(batch)

    monkeypatch.setattr(run_ahead, "extend", watched)
    return computed


def test_a_draft_finds_a_prompt_again_and_predicts_the_same(
    draft: RunningDraft, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt, predictions = ids(320), []
    computed = watch(draft.engine, monkeypatch)
    for cache in ({"prefix": False}, {}, {}):
        link = Link(draft, **hello_of(draft))
        link.next()
        link.begin(prompt, 6, sampling=SAMPLED, cache=cache)
        predictions.append(link.predictions(6, position=len(prompt)))
        link.close()
        draft.assert_all_free()
    assert predictions[1] == predictions[2] == predictions[0]
    asked = sum(computed)
    assert asked - 2 * len(prompt) < len(prompt) - BLOCK_SIZE
