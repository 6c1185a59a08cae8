"""Drafter: whose turn it is, how far each runs, what is freed, and what is refused."""

from collections.abc import Iterable
from itertools import groupby

import pytest

from services.draft.drafted_sequence import DraftedSequence
from services.draft.drafter import Drafter, DrafterConfig
from services.draft.link import DraftLink, LinkOverflowError, Prediction, Quotas, Release, ReleaseReason
from services.engine.block_manager import BlockManager
from services.engine.request import SamplingParams
from services.engine.run_ahead import Stretch
from tests.unit.sequences import VOCAB_SIZE
from tests.unit.toy_model import next_token

CONTEXT_LENGTH = 64
PROMPT = [*b"Hello"]


class ToyRunAhead:
    """Draws what the toy model draws, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[Stretch]] = []

    def extend(self, stretches: list[Stretch]) -> list[list[int]]:
        self.asked.append(stretches)
        return [self._extend(stretch) for stretch in stretches]

    def _extend(self, stretch: Stretch) -> list[int]:
        history = [*stretch.sequence.tokens]
        end = stretch.sequence.num_computed + stretch.num_tokens
        assert end == len(history) or not stretch.num_draws
        assert len(stretch.sequence.blocks) * 4 >= end + max(stretch.num_draws - 1, 0)
        for _ in range(stretch.num_draws):
            history.append(next_token(history))
        return history[len(stretch.sequence.tokens) :]


class Draft:
    """A drafter on a toy model."""

    def __init__(self, *, num_blocks: int = 64, **limits: int) -> None:
        defaults = {"max_rows": 32, "prefill_chunk": 16, "max_run": 4, "max_window": 32}
        config = DrafterConfig(context_length=CONTEXT_LENGTH, vocab_size=VOCAB_SIZE, **{**defaults, **limits})
        self.blocks = BlockManager(num_blocks=num_blocks, block_size=4)
        self.run_ahead = ToyRunAhead()
        self.drafter = Drafter(config, self.run_ahead, self.blocks)

    def join(self, *, max_sequences: int = 8, max_cached_tokens: int = 1000, capacity: int = 1000) -> DraftLink:
        quotas = Quotas(max_sequences=max_sequences, max_cached_tokens=max_cached_tokens)
        link = DraftLink(quotas, capacity=capacity)
        self.drafter.join(link)
        return link

    def begin(self, link: DraftLink, sequence_id: int = 1, *, window: int = 6, prompt: Iterable[int] = PROMPT) -> None:
        prompt = [*prompt]
        self.drafter.open(link, sequence_id, new_sequence(num_prompt=len(prompt)))
        self.drafter.commit(link, sequence_id, 0, prompt)
        self.drafter.window(link, sequence_id, window)

    def run(self) -> None:
        while self.drafter.step():
            pass


def new_sequence(*, num_prompt: int = len(PROMPT), **sampling) -> DraftedSequence:
    params = SamplingParams(**{"seed": 1, "temperature": 0.0, **sampling})
    return DraftedSequence(params, num_prompt=num_prompt, min_tokens=0, masked_ids=[])


def toy_tokens(prompt: Iterable[int], count: int) -> list[int]:
    history = [*prompt]
    for _ in range(count):
        history.append(next_token(history))
    return history[-count:]


async def told(link: DraftLink) -> list[Prediction | Release]:
    """What the link has to say by now."""
    link._loop.call_soon(link.hang_up)
    return [message async for message in link.messages()]


async def predicted(link: DraftLink) -> dict[int, list[int]]:
    """The predictions that wait to be sent, by sequence; there may be nothing else."""
    runs = sorted(await told(link), key=lambda run: (run.sequence_id, run.position))
    return {
        sequence_id: [token_id for run in group for token_id in run.token_ids]
        for sequence_id, group in groupby(runs, lambda run: run.sequence_id)
    }


async def test_without_credit_nothing_is_done():
    draft = Draft()
    assert not draft.drafter.step()
    draft.begin(draft.join(), window=0)
    assert not draft.drafter.step()


@pytest.mark.parametrize("window", [1, 4, 5, 11])
async def test_a_sequence_runs_up_to_its_window_in_runs_of_limited_length(window):
    draft = Draft()
    link = draft.join()
    draft.begin(link, window=window)
    draft.run()
    assert all(stretch.num_draws <= 4 for stretches in draft.run_ahead.asked for stretch in stretches)
    assert await predicted(link) == {1: toy_tokens(PROMPT, window)}


async def test_no_window_is_wider_than_the_draft_allows():
    draft = Draft(max_window=8)
    link = draft.join()
    draft.begin(link, window=2**32 - 1)
    draft.run()
    assert await predicted(link) == {1: toy_tokens(PROMPT, 8)}


async def test_the_context_ends_a_chain():
    draft = Draft(max_window=1000)
    link = draft.join()
    draft.begin(link, window=1000)
    draft.run()
    assert await predicted(link) == {1: toy_tokens(PROMPT, CONTEXT_LENGTH - len(PROMPT))}


async def test_long_prompts_go_in_chunks_within_the_rows_of_a_step():
    draft = Draft(max_rows=24, prefill_chunk=16)
    link = draft.join()
    prompts = {1: [*range(50)], 2: [*range(100, 140)]}
    for sequence_id, prompt in prompts.items():
        draft.begin(link, sequence_id, prompt=prompt, window=3)
    draft.run()
    for stretches in draft.run_ahead.asked:
        assert sum(stretch.num_tokens for stretch in stretches) <= 24
        assert all(stretch.num_tokens <= 16 for stretch in stretches)
    assert await predicted(link) == {sequence_id: toy_tokens(prompt, 3) for sequence_id, prompt in prompts.items()}


async def test_who_has_least_is_served_first():
    draft = Draft(max_rows=1, prefill_chunk=1)
    link = draft.join()
    for sequence_id in (1, 2):
        draft.begin(link, sequence_id, window=8)
    draft.run()
    order = [run.sequence_id for run in await told(link)]
    assert order in ([1, 2, 1, 2], [1, 2, 2, 1])


async def test_after_a_rewind_the_chain_is_drawn_anew():
    draft = Draft()
    link = draft.join()
    draft.begin(link, window=6)
    draft.run()
    chain = (await predicted(link))[1]
    draft.drafter.commit(link, 1, len(PROMPT), chain)
    draft.drafter.commit(link, 1, len(PROMPT) + 2, [])
    draft.run()
    runs = await told(link)
    assert [token_id for run in runs for token_id in run.token_ids] == toy_tokens([*PROMPT, *chain[:2]], 6)
    assert runs[0].position == len(PROMPT) + 2


async def test_blocks_follow_the_tokens_and_all_come_back():
    draft = Draft()
    link = draft.join()
    draft.begin(link, window=20)
    draft.run()
    held = draft.blocks.num_blocks - draft.blocks.num_free
    draft.drafter.commit(link, 1, len(PROMPT), [0])
    assert draft.blocks.num_blocks - draft.blocks.num_free < held
    draft.begin(link, 2)
    draft.run()
    draft.blocks.check_integrity(link.sequences.values())
    draft.drafter.close(link, 1)
    draft.drafter.leave(link)
    draft.blocks.check_integrity([])


async def test_a_link_that_left_may_be_told_to_leave_again():
    draft = Draft()
    link = draft.join()
    draft.begin(link)
    draft.run()
    draft.drafter.abandon("the engine has failed")
    draft.drafter.leave(link)
    draft.blocks.check_integrity([])


async def test_what_the_cache_cannot_hold_is_released_and_the_rest_goes_on():
    draft = Draft(num_blocks=6)
    link = draft.join()
    draft.begin(link, 1, window=4)
    draft.run()
    draft.begin(link, 2, prompt=range(40))
    draft.run()
    draft.drafter.window(link, 1, 6)
    draft.run()
    messages = await told(link)
    assert [message for message in messages if isinstance(message, Release)] == [
        Release(2, ReleaseReason.OUT_OF_MEMORY)
    ]
    drawn = [token_id for run in messages if isinstance(run, Prediction) for token_id in run.token_ids]
    assert drawn == toy_tokens(PROMPT, 6)
    draft.blocks.check_integrity(link.sequences.values())


async def test_one_links_quota_is_kept_within_a_single_step_and_is_no_other_links():
    draft = Draft(max_rows=64)
    links = [draft.join(max_cached_tokens=16), draft.join(max_cached_tokens=16)]
    for link in links:
        for sequence_id in (1, 2, 3):
            draft.begin(link, sequence_id, window=4)
    draft.run()
    for link in links:
        assert link.num_blocks <= 4
        releases = [message for message in await told(link) if isinstance(message, Release)]
        assert releases == [Release(sequence_id, ReleaseReason.OUT_OF_MEMORY) for sequence_id in (3,)]


@pytest.mark.parametrize(
    ("position", "token_ids", "reason"),
    [
        (0, [*range(CONTEXT_LENGTH + 1)], ReleaseReason.TOO_LONG),
        (2**32 - 1, [1], ReleaseReason.TOO_LONG),
        (len(PROMPT) + 1, [1], ReleaseReason.REFUSED),
        (0, [VOCAB_SIZE], ReleaseReason.REFUSED),
        (len(PROMPT), [1, 2**32 - 1], ReleaseReason.REFUSED),
    ],
)
async def test_a_commit_that_makes_no_sense_releases_the_sequence(position, token_ids, reason):
    draft = Draft()
    link = draft.join()
    draft.begin(link)
    draft.run()
    await told(link)
    draft.drafter.commit(link, 1, position, token_ids)
    draft.drafter.commit(link, 1, 0, PROMPT)
    assert await told(link) == [Release(1, reason)]
    assert not draft.drafter.step()
    draft.blocks.check_integrity([])


async def test_no_more_sequences_are_followed_than_the_quota_says():
    draft = Draft()
    link = draft.join(max_sequences=2)
    for sequence_id in (1, 2, 3):
        draft.drafter.open(link, sequence_id, new_sequence())
    assert await told(link) == [Release(3, ReleaseReason.REFUSED)]
    assert link.sequences.keys() == {1, 2}


async def test_opening_an_open_sequence_frees_what_it_held():
    draft = Draft()
    link = draft.join()
    draft.begin(link)
    draft.run()
    await told(link)
    draft.drafter.open(link, 1, new_sequence())
    assert await told(link) == [Release(1, ReleaseReason.REFUSED)]
    draft.blocks.check_integrity([])


async def test_parameters_that_nobody_can_draw_with_are_refused():
    draft = Draft()
    link = draft.join()
    draft.drafter.open(link, 1, new_sequence(top_p=0.0))
    assert await told(link) == [Release(1, ReleaseReason.REFUSED)]


async def test_a_link_that_is_not_read_ends_and_keeps_no_more_than_its_capacity():
    draft = Draft()
    link = draft.join(capacity=3)
    for sequence_id in range(1, 100):
        link.send(Release(sequence_id, ReleaseReason.REFUSED))
    with pytest.raises(LinkOverflowError, match="more than 3 messages wait for a target that does not read"):
        await told(link)
    assert link._outbox.qsize() <= 3
