"""A draft that can do less than its target does what it can: the client gets the same bytes, and figures of it."""

import asyncio
from pathlib import Path

import pytest
import torch

from outrider import NoSpeculationReason
from tests.e2e.harness.draft_rig import (
    GREEDY,
    READ_AHEAD,
    SAMPLED,
    DraftedTarget,
    MakeDraft,
    Options,
    accepted_behind,
    assert_counts,
)
from tests.e2e.harness.models import DEMO_DRAFT, folder
from tests.harness.models.checkpoints import copy_of, edit_weights


async def test_a_draft_with_another_vocabulary_is_refused(target: DraftedTarget, make_draft: MakeDraft):
    since = target.service.log_size
    make_draft(model=folder("qwen3")).start()
    await target.service.logs("FAILED_PRECONDITION", since)
    speculation = (await target.generate({**GREEDY, "max_tokens": 20})).speculation
    assert (speculation.predicted, speculation.no_speculation_reason) == (0, NoSpeculationReason.UNAVAILABLE)
    assert "the target's vocabulary is another one than the draft's" in speculation.no_speculation_detail


async def test_a_sequence_outgrows_the_drafts_context(target: DraftedTarget, make_draft: MakeDraft):
    await target.start_draft(make_draft("--context", "128"))
    result = await target.generate({**GREEDY, "max_tokens": 160, "request_id": "long"})
    assert_counts(result)
    num_prompt = result.usage.prompt_tokens
    assert accepted_behind(result, 128 - num_prompt - 32) > 0  # until shortly before it
    assert accepted_behind(result, 129 - num_prompt) == 0
    assert result.speculation.draft_losses == 1
    await target.service.logs("request long: the draft dropped it: RELEASE_REASON_TOO_LONG")
    later = await target.generate({**SAMPLED, "max_tokens": 80, "num_predictions": 8})
    assert later.speculation.accepted > 0  # the draft is still there


async def test_a_prompt_that_the_draft_cannot_hold(target: DraftedTarget, make_draft: MakeDraft):
    await target.start_draft(make_draft("--context", "16"))
    speculation = (await target.generate({**GREEDY, "max_tokens": 100})).speculation
    assert (speculation.predicted, speculation.no_speculation_reason) == (0, NoSpeculationReason.UNAVAILABLE)
    assert "the draft dropped the sequence: RELEASE_REASON_TOO_LONG" in speculation.no_speculation_detail


async def test_a_draft_without_memory_for_two_drops_one_stream(target: DraftedTarget, make_draft: MakeDraft):
    await target.start_draft(make_draft("--kv-blocks", "4"))
    since = target.service.log_size
    options: Options = {"max_tokens": 95, "num_predictions": 8}
    meeting = asyncio.Barrier(2)

    async def grow_until_one_is_dropped() -> None:
        await meeting.wait()  # both have more than half of what there is
        await target.service.logs("the draft dropped it: RELEASE_REASON_OUT_OF_MEMORY", since)

    at = {50: grow_until_one_is_dropped}
    both = await asyncio.gather(*(target.generate({**kind, **options}, at=at) for kind in (GREEDY, SAMPLED)))
    assert sum(result.speculation.accepted for result in both) > 0
    assert sum(result.speculation.draft_losses for result in both) >= 1
    for _ in range(2):  # what the dropped one held is free again
        assert_counts(await target.generate({**SAMPLED, **options}))


async def test_16_streams_get_a_new_draft_up_to_its_sequence_limit(target: DraftedTarget, make_draft: MakeDraft):
    kinds = [{**kind, "max_tokens": 100} for kind in (GREEDY, SAMPLED, {**SAMPLED, "seed": 1})]
    for kind in kinds:
        await target.generate(kind)  # what each gives alone is known from here on
    first, second = make_draft(), make_draft("--max-sequences", "12")
    await target.start_draft(first)
    since = target.service.log_size
    meeting = asyncio.Barrier(16)

    async def restart_once_all_are_here() -> None:
        if await meeting.wait() == 0:
            await target.kill_draft(first)
            await target.start_draft(second)
        await meeting.wait()

    at = {40: restart_once_all_are_here}
    results = await asyncio.gather(*(target.generate(kinds[number % 3], at=at) for number in range(16)))
    assert {result.speculation.draft_returns for result in results} == {1}
    refused = [result for result in results if result.speculation.draft_losses == 2]
    followed = [result for result in results if result.speculation.draft_losses == 1]
    assert (len(refused), len(followed)) == (4, 12)
    assert target.service.log(since).count("the draft dropped it: RELEASE_REASON_REFUSED") == 4
    assert not any(accepted_behind(result, 40 + READ_AHEAD) for result in refused)
    assert all(accepted_behind(result, 40) for result in followed)


@pytest.mark.exhaustive
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
