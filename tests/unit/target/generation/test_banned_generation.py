"""Banned strings never occur: in any company, an answer is the one that the rule on whole strings gives."""

import asyncio
import re
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.events import Chunk, FinishReason, Refused
from services.engine.request import Loop, Request, SpeculationMode, SpeculationPolicy
from tests.harness.further import all_with
from tests.unit.banned_model import END, VOCAB_SIZE, answer, scores_of
from tests.unit.banned_target import Target, complete, make, step_by_step, tuple_of

TEMPTING = st.sampled_from(["ab", "BB", "s", "Ba ", "a<b>a", "aa", "b\u00df", "s<", "abba", " a", "<b><b>"])
BANNED = st.lists(TEMPTING | st.text(alphabet="abABsS<> \u00df", min_size=1, max_size=5), min_size=1, max_size=4)
REQUESTS = st.builds(
    make,
    BANNED,
    prompt=st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=6),
    seed=st.integers(0, 99),
    temperature=st.sampled_from([0.0, 1.0]),
    max_tokens=st.integers(1, 24),
    strings=st.sampled_from([(), (), ("ab",), ("b ", "Sa"), ("<b>",)]),
    include_stop=st.booleans(),
    loop=st.sampled_from([None, None, Loop(window=2, repetitions=2), Loop(window=5, repetitions=2)]),
    show_special_tokens=st.booleans(),
    token_ids=st.sampled_from([frozenset(), frozenset([END]), frozenset([END, 3])]),
    min_tokens=st.sampled_from([0, 0, 0, 3]),
    allowed=st.just(()) | st.sets(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=6).map(tuple),
    regex=st.sampled_from(
        [None, None, "abb[abs ]*", "(s|Ba)(ab)?[aAs]{2,4}b.*", "(ab|b\u00df)* sS+", "abba|abs [sS]*"]
    ),
)


@settings(max_examples=10, derandomize=True, database=None)
@given(st.lists(REQUESTS, min_size=1, max_size=5), st.booleans(), st.integers(0, 99))
def test_alone_and_in_company_with_predictions_and_without(requests, predicts, seed):
    async def check() -> None:
        target = Target(num_blocks=14, predicts=predicts, random=Random(seed))
        for generation, request in zip(await complete(target, *requests), requests, strict=True):
            assert generation.answer() == tuple_of(answer(request))
            text = generation.answer()[1].casefold()
            assert not any(string.casefold() in text for string in request.sampling.banned_strings)
        assert target.blocks.num_free == 14

    asyncio.run(check())


@settings(max_examples=12, derandomize=True, database=None)
@given(REQUESTS, st.integers(0, 99))
def test_a_continuation_from_any_chunk_or_token_agrees(request, seed):
    async def check() -> None:
        whole = answer(request)
        one = await step_by_step(Target(random=Random(seed)), request)
        for num_tokens, text, num_suppressed in one.boundaries():
            (rest,) = await complete(
                Target(random=Random(seed)), replace(request, received=tuple(whole.ids[:num_tokens]))
            )
            ids, rest_text, reason, suppressed = rest.answer()
            assert (whole.ids[:num_tokens] + ids, text + rest_text, reason) == (whole.ids, whole.text, whole.reason)
            num_due = sum(due < num_tokens for due in whole.due)  # the rest comes at an end for want of a token
            assert num_suppressed in (num_due, len(whole.suppressed))
            assert whole.suppressed[:num_due] + suppressed == whole.suppressed
        for cut in range(len(whole.ids)):
            (rest,) = await complete(Target(), replace(request, received=tuple(whole.ids[:cut])))
            ids, _, reason, suppressed = rest.answer()
            assert (whole.ids[:cut] + ids, reason) == (whole.ids, whole.reason)
            later = [one for one, due in zip(whole.suppressed, whole.due, strict=True) if due >= cut]
            assert suppressed == later

    asyncio.run(check())


@settings(max_examples=20, derandomize=True, database=None)
@given(REQUESTS, st.integers(0, 60))
def test_a_time_limit_gives_a_prefix_and_shows_held_text(request, num_steps):
    async def check() -> None:
        whole = answer(request)
        target = Target()
        generation = target.add(request)
        for _ in range(num_steps):
            target.step()
        if generation.sequence.is_finished:
            return
        generation.sequence.expires_at = 0.0
        target.run()
        generation.events = [event async for event in generation.stream]
        ids, text, reason, suppressed = generation.answer()
        assert reason is FinishReason.TIME_LIMIT
        assert ids == whole.ids[: len(ids)]
        assert sum(report.num_tokens for chunk in generation.chunks for report in chunk.reports) == len(ids)
        assert generation.events[-1].completion_tokens == len(ids)
        assert suppressed == [one for one, due in zip(whole.suppressed, whole.due, strict=True) if due < len(ids)]
        assert not any(string.casefold() in text.casefold() for string in request.sampling.banned_strings)

    asyncio.run(check())


def crowd() -> list[Request]:
    """Requests that are tempted often."""
    banned = ["ab", "s", "Ba ", "bb"]
    policy = SpeculationPolicy(mode=SpeculationMode.ALWAYS, num_predictions=6)
    return [
        replace(make(banned, prompt=[n, 2], seed=n, temperature=n % 2, token_ids=frozenset()), speculation=policy)
        for n in range(12)
    ]


async def test_the_workloads_cover_bans_preemptions_and_predictions():
    """Tokens are taken back amid what was predicted, among preemptions, with predictions right and wrong."""
    target = Target(num_blocks=14)
    generations = await complete(target, *crowd())
    assert [generation.answer() for generation in generations] == [tuple_of(answer(request)) for request in crowd()]
    assert target.scheduler.num_preemptions > 0
    assert target.num_broken_passes > 10
    assert any(len(generation.answer()[3]) > 5 for generation in generations)
    stats = [generation.events[-1].speculation for generation in generations]
    assert sum(sum(one.offered) for one in stats) > sum(sum(one.accepted) for one in stats) > 0


async def test_reports_and_usage_count_only_tokens_that_stay():
    for generation in await complete(Target(), *crowd()):
        ids, *_ = generation.answer()
        end = generation.events[-1]
        assert end.completion_tokens == len(ids)
        reports = [report for chunk in generation.chunks for report in chunk.reports]
        assert sum(report.num_tokens for report in reports) == len(ids)
        assert len(reports) == end.speculation.passes


async def test_banning_every_token_ends_with_no_candidates():
    request = make([*"ab s<", "\u00df", "\ufffd"], prompt=[0], token_ids=frozenset(), max_tokens=3)
    (generation,) = await complete(Target(), request)
    assert generation.answer() == tuple_of(answer(request))
    assert generation.answer()[2] is FinishReason.NO_CANDIDATES
    assert generation.chunks[-1].suppressed, "what was suppressed is told even where no token came in its place"


async def test_received_tokens_that_hold_a_banned_string_are_refused():
    with pytest.raises(ValueError, match="token 1 completes a banned string"):
        Target().add(replace(make(["ab"], prompt=[2]), received=(0, 1)))


async def test_received_tokens_that_force_a_banned_string_are_refused():
    """They are not the generation's own: it would not have sent them before it knew."""
    tempting = (make(["ab"], prompt=[*pair, 2], token_ids=frozenset()) for pair in product(range(VOCAB_SIZE), repeat=2))
    request = next(request for request in tempting if scores_of(request, [*request.prompt, 0]).argmax() == 1)
    (generation,) = await complete(Target(), replace(request, received=(0,)))
    *chunks, last = generation.events
    assert not any(isinstance(event, Chunk) for event in chunks)
    assert last == Refused("what follows them completes a banned string that begins in them")


@pytest.mark.parametrize("part", all_with(range(8), 0))
async def test_text_is_still_held_when_a_rewind_allows_it_again(part):
    """A token may put one banned string out of the question and begin another, for which it is taken back."""
    for pair in [*product(range(VOCAB_SIZE), repeat=2)][part::8]:
        request = make(["Ba ", "Aa", "b\u00df", "bs"], prompt=[*pair], temperature=1.0, token_ids=frozenset())
        (generation,) = await complete(Target(), request)
        assert generation.answer() == tuple_of(answer(request))


async def test_a_banned_string_forced_by_a_grammar_is_cut_later():
    """The text cannot begin in another way, but it can go on in another."""
    for seed in range(10):
        request = make(["bba", "bb "], prompt=[seed % VOCAB_SIZE], seed=seed, temperature=1.0, regex="abb[as ]{4}")
        (generation,) = await complete(Target(random=Random(seed)), request)
        assert generation.answer() == tuple_of(answer(request))
        _, text, reason, _ = generation.answer()
        assert reason is FinishReason.STOP_TOKEN
        assert re.fullmatch("abbs[as ]{3}", text)


@pytest.mark.parametrize("limits", [{"regex": "(a|s)bb( |a)S*"}, {"regex": "Babb"}, {"allowed": (0, 1, 3)}])
async def test_a_generation_without_another_way_ends_before_the_ban(limits):
    request = make(["b", "A"], prompt=[0], **limits)
    (generation,) = await complete(Target(), request)
    assert generation.answer() == tuple_of(answer(request))
    ids, text, reason, suppressed = generation.answer()
    assert reason is (FinishReason.GRAMMAR_INCOMPLETE if "regex" in limits else FinishReason.NO_CANDIDATES)
    assert suppressed
    assert len(suppressed) < 100
    assert "b" not in text
    assert all(token_id in limits.get("allowed", ids) for token_id in ids)
