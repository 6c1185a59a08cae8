"""A draft may come, go, hang, lie far away or be of no use: the client gets the same bytes, and is told."""

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from outrider import FinishReason, NoSpeculationReason, Result
from outrider.types import Token
from tests.checkpoints import copy_of, edit_weights
from tests.e2e.draft_rig import GREEDY, PROMPT, SAMPLED, Action, DraftedTarget, Options, Service, accepted_behind
from tests.e2e.models import DEMO_DRAFT, folder

MakeDraft = Callable[..., Service]
_READ_AHEAD = 40  # tokens that may be generated before it shows that their reader has paused


@pytest.fixture
def make_draft(target: DraftedTarget, tmp_path: Path) -> Iterator[MakeDraft]:
    """Drafts, not started yet: the near one is where the target looks for it."""
    made: list[Service] = []

    def make(*options: str, model: Path = DEMO_DRAFT, near: bool = True) -> Service:
        made.append(Service("draft", model, tmp_path, *options, address=target.draft_address if near else None))
        return made[-1]

    yield make
    for draft in made:
        draft.kill()


def assert_counts(result: Result) -> None:
    """There were enough predictions for the equality to mean something, right ones and wrong ones."""
    assert result.speculation.predicted >= 50
    assert 0 < result.speculation.accepted < result.speculation.predicted
    assert result.speculation.no_speculation_reason is None


@pytest.mark.parametrize("options", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
async def test_a_draft_that_comes_up_while_a_stream_runs_is_used(
    target: DraftedTarget, make_draft: MakeDraft, options: Options
):
    draft = make_draft()
    result = await target.generate({**options, "max_tokens": 400}, at={50: lambda: target.start_draft(draft)})
    assert_counts(result)
    assert accepted_behind(result, 50) == result.speculation.accepted
    assert result.speculation.draft_losses == result.speculation.draft_returns == 0


async def test_without_a_draft_the_final_message_says_so(target: DraftedTarget):
    speculation = (await target.generate({**GREEDY, "max_tokens": 20})).speculation
    assert (speculation.predicted, speculation.no_speculation_reason) == (0, NoSpeculationReason.UNAVAILABLE)
    assert f"the draft at {target.draft_address} is not there" in speculation.no_speculation_detail


@pytest.mark.parametrize("options", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
async def test_a_killed_draft_is_used_again_when_it_is_back(
    target: DraftedTarget, make_draft: MakeDraft, options: Options
):
    draft = make_draft()
    await target.start_draft(draft)
    kill, restart = (lambda: target.kill_draft(draft)), (lambda: target.start_draft(draft))
    at: dict[int, Action] = {100: kill, 250: restart}
    result = await target.generate({**options, "max_tokens": 500}, at=at)
    assert_counts(result)
    assert (result.speculation.draft_losses, result.speculation.draft_returns) == (1, 1)
    assert 0 < accepted_behind(result, 250) < result.speculation.accepted
    assert not any(token.predicted for token in result.tokens[100 + _READ_AHEAD : 250])


async def test_a_stopped_draft_is_used_again_when_it_goes_on(target: DraftedTarget, make_draft: MakeDraft):
    draft = make_draft()
    await target.start_draft(draft)

    async def stop() -> None:
        draft.pause()

    async def go_on() -> None:
        draft.resume()

    result = await target.generate({**SAMPLED, "max_tokens": 600}, at={100: stop, 300: go_on})
    assert_counts(result)
    assert accepted_behind(result, 300) > 0
    assert not any(token.predicted for token in result.tokens[100 + _READ_AHEAD : 300])
    assert result.speculation.draft_losses == 0


async def test_a_draft_with_another_vocabulary_is_refused(target: DraftedTarget, make_draft: MakeDraft):
    since = target.service.log_size
    make_draft(model=folder("qwen3")).start()
    await target.service.logs("FAILED_PRECONDITION", since)
    speculation = (await target.generate({**GREEDY, "max_tokens": 100})).speculation
    assert (speculation.predicted, speculation.no_speculation_reason) == (0, NoSpeculationReason.UNAVAILABLE)
    assert "the target's vocabulary is another one than the draft's" in speculation.no_speculation_detail


async def test_a_sequence_outgrows_the_drafts_context(target: DraftedTarget, make_draft: MakeDraft):
    await target.start_draft(make_draft("--context", "128"))
    result = await target.generate({**GREEDY, "max_tokens": 300})
    assert_counts(result)
    num_prompt = result.usage.prompt_tokens
    assert accepted_behind(result, 128 - num_prompt - 32) > 0  # until shortly before it
    assert accepted_behind(result, 129 - num_prompt) == 0
    later = await target.generate({**SAMPLED, "max_tokens": 80, "num_predictions": 8})
    assert later.speculation.accepted > 0  # the draft is still there


async def test_a_prompt_that_the_draft_cannot_hold(target: DraftedTarget, make_draft: MakeDraft):
    await target.start_draft(make_draft("--context", "16"))
    speculation = (await target.generate({**GREEDY, "max_tokens": 100})).speculation
    assert (speculation.predicted, speculation.no_speculation_reason) == (0, NoSpeculationReason.UNAVAILABLE)
    assert "the draft dropped the sequence: RELEASE_REASON_TOO_LONG" in speculation.no_speculation_detail


async def test_a_draft_without_memory_for_two_drops_one_and_serves_the_next(
    target: DraftedTarget, make_draft: MakeDraft
):
    await target.start_draft(make_draft("--kv-blocks", "4"))
    options: Options = {"max_tokens": 95, "num_predictions": 8}
    both = await asyncio.gather(target.generate({**GREEDY, **options}), target.generate({**SAMPLED, **options}))
    assert sum(result.speculation.accepted for result in both) > 0
    for _ in range(2):  # what the dropped one held is free again
        assert_counts(await target.generate({**SAMPLED, **options}))


async def test_a_draft_of_random_weights_is_only_wrong(target: DraftedTarget, make_draft: MakeDraft, tmp_path: Path):
    def shuffle(tensors: dict[str, torch.Tensor]) -> None:
        generator = torch.Generator().manual_seed(11)
        for name, tensor in tensors.items():
            order = torch.randperm(tensor.numel(), generator=generator)
            tensors[name] = tensor.flatten()[order].reshape(tensor.shape)

    model = copy_of(DEMO_DRAFT, tmp_path)
    edit_weights(model, shuffle)
    await target.start_draft(make_draft(model=model))
    for options in (GREEDY, SAMPLED):
        speculation = (await target.generate({**options, "max_tokens": 300})).speculation
        assert speculation.predicted >= 50
        assert speculation.accepted < speculation.predicted / 10


async def test_a_link_that_delays(target: DraftedTarget, make_draft: MakeDraft):
    far = make_draft(near=False)
    naps: dict[int, Action] = dict.fromkeys(range(20, 180, 20), lambda: asyncio.sleep(0.5))  # more than a round trip
    async with target.linked_through_proxy(far, delay=0.2):
        result = await target.generate({**SAMPLED, "max_tokens": 190, "num_predictions": 8}, at=naps)
    assert_counts(result)


async def test_a_link_that_stalls(target: DraftedTarget, make_draft: MakeDraft):
    async with target.linked_through_proxy(make_draft(near=False)) as proxy:

        async def stall() -> None:
            proxy.stall()

        async def flow() -> None:
            proxy.flow()

        result = await target.generate({**SAMPLED, "max_tokens": 600}, at={100: stall, 300: flow})
    assert_counts(result)
    assert accepted_behind(result, 300) > 0
    assert not any(token.predicted for token in result.tokens[100 + _READ_AHEAD : 300])


async def test_a_link_that_is_cut(target: DraftedTarget, make_draft: MakeDraft):
    async with target.linked_through_proxy(make_draft(near=False)) as proxy:

        async def cut() -> None:
            since = target.service.log_size
            proxy.cut()
            await target.service.logs(target.LINKED, since)

        result = await target.generate({**SAMPLED, "max_tokens": 500}, at={100: cut, 250: cut})
    assert_counts(result)
    assert (result.speculation.draft_losses, result.speculation.draft_returns) == (2, 2)
    assert accepted_behind(result, 250) > 0


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
        at = dict.fromkeys((50, 120, 200, 250), act_once_all_are_here)
        return await target.generate({**options, "max_tokens": 320}, at=at, prompt=PROMPT[: 30 + 10 * number])

    for result in await asyncio.gather(*map(stream, range(8))):
        assert_counts(result)
        assert (result.speculation.draft_losses, result.speculation.draft_returns) == (2, 2)
        assert accepted_behind(result, 250) > 0


async def test_an_exact_number_of_tokens_wherever_it_ends_in_a_run(target: DraftedTarget, make_draft: MakeDraft):
    await target.start_draft(make_draft())
    lengths = range(60, 70)
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
        for at in range(100, 120, 2)
    ]
    assert {result.finish_reason for result in results} == {FinishReason.STOP_STRING}
    assert len({_accepted_at_the_end(result.tokens) for result in results}) >= 3
    assert sum(result.speculation.accepted for result in results) >= 50


async def test_a_cancelled_stream_leaves_nothing_in_the_draft(target: DraftedTarget, make_draft: MakeDraft):
    await target.start_draft(make_draft("--kv-blocks", "4"))
    for seed in range(6):  # each holds more than half of the blocks when it is cancelled
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


def _accepted_at_the_end(tokens: Sequence[Token]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda token: token.predicted, reversed(tokens)))
