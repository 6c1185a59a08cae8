"""A draft may come, go, hang, lie far away or be useless: the client gets the same bytes, and figures of it."""

import asyncio
import itertools
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from functools import partial

import pytest

from outrider import FinishReason, NoSpeculationReason, Result
from outrider.types import Token
from tests.e2e.harness.draft_rig import (
    GREEDY,
    PATIENCE_SECONDS,
    PROMPT,
    READ_AHEAD,
    SAMPLED,
    Action,
    DraftedTarget,
    MakeDraft,
    Options,
    accepted_behind,
    assert_counts,
)
from tests.harness.further import further

LONG = 400  # tokens of most answers here: without a draft they are generated once, for all tests


@pytest.mark.parametrize("options", [further(GREEDY, id="greedy"), pytest.param(SAMPLED, id="sampled")])
async def test_a_draft_that_comes_up_while_a_stream_runs_is_used(
    target: DraftedTarget, make_draft: MakeDraft, options: Options
):
    draft = make_draft()
    result = await target.generate({**options, "max_tokens": LONG}, at={50: lambda: target.start_draft(draft)})
    assert_counts(result)
    assert accepted_behind(result, 50) == result.speculation.accepted
    assert result.speculation.draft_losses == result.speculation.draft_returns == 0


async def test_a_draft_predicts_among_the_tokens_that_are_allowed(target: DraftedTarget, make_draft: MakeDraft):
    """None of them is common: what a draft that drew freely predicted would never be verified."""
    await target.start_draft(make_draft())
    allowed = [*range(500, 8000, 7)]
    result = await target.generate({**SAMPLED, "allowed_token_ids": allowed, "lookup": False, "max_tokens": 200})
    assert {*result.token_ids} <= {*allowed}
    assert result.speculation.draft_acceptance_rate > 0.05


async def test_without_a_draft_the_final_message_says_so(target: DraftedTarget):
    speculation = (await target.generate({**GREEDY, "max_tokens": 20})).speculation
    assert (speculation.predicted, speculation.no_speculation_reason) == (0, NoSpeculationReason.UNAVAILABLE)
    assert f"the draft at {target.draft_address} is not there" in speculation.no_speculation_detail


@pytest.mark.parametrize("options", [further(GREEDY, id="greedy"), pytest.param(SAMPLED, id="sampled")])
async def test_a_killed_draft_is_used_again_when_it_is_back(
    target: DraftedTarget, make_draft: MakeDraft, options: Options
):
    draft = make_draft()
    await target.start_draft(draft)
    kill, restart = (lambda: target.kill_draft(draft)), (lambda: target.start_draft(draft))
    at: dict[int, Action] = {60: kill, 150: restart}
    result = await target.generate({**options, "max_tokens": LONG}, at=at)
    assert_counts(result)
    assert (result.speculation.draft_losses, result.speculation.draft_returns) == (1, 1)
    assert 0 < accepted_behind(result, 150) < result.speculation.accepted
    assert not any(token.predicted for token in result.tokens[60 + READ_AHEAD : 150])


async def test_a_stopped_draft_is_used_again_when_it_goes_on(target: DraftedTarget, make_draft: MakeDraft):
    draft = make_draft()
    await target.start_draft(draft)

    async def stop() -> None:
        draft.pause()

    async def go_on() -> None:
        draft.resume()

    since = target.service.log_size
    result = await target.generate({**SAMPLED, "max_tokens": LONG}, at={60: stop, 130: go_on})
    assert_counts(result)
    assert accepted_behind(result, 130) > 0
    assert not any(token.predicted for token in result.tokens[60 + READ_AHEAD : 130])
    was_given_up = target.UNLINKED in target.service.log(since)  # as on a machine that takes long for so few tokens
    assert bool(result.speculation.draft_losses) == was_given_up


@pytest.mark.exhaustive
async def test_a_draft_stopped_for_long_is_given_up_and_used_again(target: DraftedTarget, make_draft: MakeDraft):
    draft = make_draft()
    await target.start_draft(draft)

    async def stop_until_it_is_given_up() -> None:
        since = target.service.log_size
        draft.pause()
        await target.service.logs(target.UNLINKED, since)

    async def go_on() -> None:
        since = target.service.log_size
        draft.resume()
        await target.service.logs(target.LINKED, since)

    result = await target.generate({**SAMPLED, "max_tokens": 600}, at={100: stop_until_it_is_given_up, 300: go_on})
    assert_counts(result)
    assert accepted_behind(result, 300) > 0
    assert (result.speculation.draft_losses, result.speculation.draft_returns) == (1, 1)


@pytest.mark.exhaustive
async def test_a_link_that_delays(target: DraftedTarget, make_draft: MakeDraft):
    num_predicted, seconds = 0, 0.5  # more than a round trip
    async with target.linked_through_proxy(make_draft(near=False), delay=0.2):
        while num_predicted < 50:  # a slow machine needs more time for one
            assert seconds < PATIENCE_SECONDS
            naps: dict[int, Action] = dict.fromkeys(range(20, 180, 20), partial(asyncio.sleep, seconds))
            result = await target.generate({**SAMPLED, "max_tokens": 190, "num_predictions": 8}, at=naps)
            num_predicted, seconds = result.speculation.predicted, 2 * seconds
    assert_counts(result)


async def test_a_link_that_stalls(target: DraftedTarget, make_draft: MakeDraft):
    async with target.linked_through_proxy(make_draft(near=False)) as proxy:

        async def stall() -> None:
            proxy.stall()

        async def flow() -> None:
            proxy.flow()

        result = await target.generate({**SAMPLED, "max_tokens": LONG}, at={60: stall, 130: flow})
    assert_counts(result)
    assert accepted_behind(result, 130) > 0
    assert not any(token.predicted for token in result.tokens[60 + READ_AHEAD : 130])


async def test_a_link_that_is_cut(target: DraftedTarget, make_draft: MakeDraft):
    async with target.linked_through_proxy(make_draft(near=False)) as proxy:

        async def cut() -> None:
            since = target.service.log_size
            proxy.cut()
            await target.service.logs(target.LINKED, since)

        result = await target.generate({**SAMPLED, "max_tokens": LONG}, at={100: cut})
    assert_counts(result)
    assert (result.speculation.draft_losses, result.speculation.draft_returns) == (1, 1)
    assert accepted_behind(result, 100) > 0


@pytest.mark.exhaustive
async def test_eight_streams_while_the_draft_is_killed_and_restarted(target: DraftedTarget, make_draft: MakeDraft):
    draft = make_draft()
    await target.start_draft(draft)
    steps: Iterator[Action] = itertools.cycle([lambda: target.kill_draft(draft), lambda: target.start_draft(draft)])
    meeting = asyncio.Barrier(8)

    async def act_once_all_are_here() -> None:
        if await meeting.wait() == 0:
            await next(steps)()
        await meeting.wait()

    async def stream(number: int) -> Result:
        options: Options = {**(GREEDY if number % 2 else SAMPLED), "seed": number, "num_predictions": 1 + number}
        at = dict.fromkeys((40, 90, 140, 190), act_once_all_are_here)
        return await target.generate({**options, "max_tokens": 250}, at=at, prompt=PROMPT[: 30 + 10 * number])

    results = await asyncio.gather(*map(stream, range(8)))
    assert_counts(*results)
    assert {(result.speculation.draft_losses, result.speculation.draft_returns) for result in results} == {(2, 2)}
    assert sum(accepted_behind(result, 190) for result in results) > 0


async def test_an_exact_number_of_tokens_wherever_it_ends_in_a_run(target: DraftedTarget, make_draft: MakeDraft):
    await target.start_draft(make_draft())
    lengths = range(62, 69)
    options: Options = {**GREEDY, "num_predictions": 8}
    results = [await target.generate({**options, "max_tokens": length}) for length in lengths]
    assert [len(result.token_ids) for result in results] == [*lengths]
    assert {result.finish_reason for result in results} == {FinishReason.MAX_TOKENS}
    lengths_of_last_runs = {_accepted_at_the_end(result.tokens[:-1]) for result in results}  # the last is the target's
    assert len(lengths_of_last_runs) >= 3
    assert sum(result.speculation.accepted for result in results) >= 50


async def test_a_stop_string_wherever_it_ends_in_a_run(target: DraftedTarget, make_draft: MakeDraft):
    await target.start_draft(make_draft())
    whole = await target.generate({**GREEDY, "max_tokens": 80, "num_predictions": 8})
    results = [
        await target.generate({**GREEDY, "max_tokens": 80, "num_predictions": 8, "stop": whole.text[at : at + 6]})
        for at in range(100, 114, 2)
    ]
    assert {result.finish_reason for result in results} == {FinishReason.STOP_STRING}
    assert len({_accepted_at_the_end(result.tokens) for result in results}) >= 3
    assert sum(result.speculation.accepted for result in results) >= 50


async def test_a_cancelled_stream_leaves_nothing_in_the_draft(target: DraftedTarget, make_draft: MakeDraft):
    await target.start_draft(make_draft("--kv-blocks", "4"))
    for seed in range(3):  # each holds more than half of the blocks when it is cancelled
        num_predicted = 0
        async with (
            target.connect() as client,
            client.stream(PROMPT, **{**SAMPLED, "seed": seed}, max_tokens=90, speculation="always") as stream,
        ):
            async for chunk in stream:
                num_predicted += sum(token.predicted for token in chunk.tokens)
                if len(stream.received.token_ids) >= 50:
                    break
        assert num_predicted > 0
    assert_counts(await target.generate({**SAMPLED, "max_tokens": 90, "num_predictions": 8}))


def _accepted_at_the_end(tokens: Seq[Token]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda token: token.predicted, reversed(tokens)))
