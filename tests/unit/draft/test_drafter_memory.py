"""Drafter: how the KV cache is shared among links, what becomes of a sequence without room, and what is freed."""

from services.draft_protocol.messages import Prediction, Release, ReleaseReason
from tests.unit.toy_draft import PROMPT, Draft, predicted, told, toy_tokens


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
    draft.blocks.check_integrity(sequence.text for sequence in link.sequences.values())
    draft.drafter.close(link, 1)
    draft.drafter.leave(link)
    draft.blocks.check_integrity([])


async def test_a_sequence_beyond_the_cache_is_released_and_others_run():
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
    draft.blocks.check_integrity(sequence.text for sequence in link.sequences.values())


async def test_each_links_quota_is_kept_within_a_single_step():
    draft = Draft(max_rows=64)
    links = [draft.join(max_cached_tokens=16), draft.join(max_cached_tokens=16)]
    for link in links:
        for sequence_id in (1, 2, 3):
            draft.begin(link, sequence_id, window=4)
    draft.run()
    for link in links:
        assert draft.drafter.num_blocks(link) <= 4
        releases = [message for message in await told(link) if isinstance(message, Release)]
        assert releases == [Release(sequence_id, ReleaseReason.OUT_OF_MEMORY) for sequence_id in (3,)]


async def test_with_little_memory_a_sequence_predicts_as_far_as_fits():
    draft = Draft(num_blocks=3)
    link = draft.join()
    draft.begin(link, window=30)
    draft.run()
    room = 3 * 4 - len(PROMPT)
    chain = toy_tokens(PROMPT, room + 1)  # the last one is drawn after the last slot
    assert await predicted(link) == {1: chain}
    draft.drafter.commit(link, 1, len(PROMPT), [chain[0], 0])
    draft.run()
    assert await predicted(link) == {1: toy_tokens([*PROMPT, chain[0], 0], room - 1)}
    draft.blocks.check_integrity(sequence.text for sequence in link.sequences.values())


async def test_a_sequence_that_waits_for_memory_continues_when_it_can():
    draft = Draft(num_blocks=5)
    link = draft.join()
    draft.begin(link, 1, prompt=range(8), window=1)
    draft.run()
    draft.begin(link, 2, window=30)
    draft.run()
    few = (await predicted(link))[2]
    draft.drafter.close(link, 1)
    draft.run()
    more = (await predicted(link))[2]
    assert few + more == toy_tokens(PROMPT, 5 * 4 - len(PROMPT) + 1)


async def test_a_link_below_its_share_takes_blocks_of_the_largest_link():
    draft = Draft(num_blocks=12, max_rows=64)
    greedy, modest, late = draft.join(), draft.join(), draft.join()
    for sequence_id, size in ((1, 20), (2, 8), (3, 12)):
        draft.begin(greedy, sequence_id, prompt=range(60 * sequence_id, 60 * sequence_id + size), window=1)
    draft.begin(modest, window=1)
    draft.run()
    assert draft.blocks.num_free == 0
    for link in (greedy, modest):
        await told(link)
    draft.begin(late, window=4, prompt=range(13))
    draft.run()
    assert await predicted(late) == {1: toy_tokens(range(13), 4)}
    assert await told(greedy) == [Release(1, ReleaseReason.OUT_OF_MEMORY)]
    assert await told(modest) == []
    draft.begin(late, 2, prompt=range(30, 43))
    draft.run()
    assert await told(late) == [Release(2, ReleaseReason.OUT_OF_MEMORY)], "more than its share is not taken from others"
    owners = [sequence.text for link in (greedy, modest, late) for sequence in link.sequences.values()]
    draft.blocks.check_integrity(owners)


async def test_sequences_that_lose_their_blocks_are_left_out_of_a_step():
    draft = Draft(num_blocks=4, max_rows=64)
    greedy, late = draft.join(), draft.join()
    draft.begin(greedy, prompt=range(14), window=4)
    draft.begin(late, prompt=range(5), window=1)
    draft.run()
    assert await told(greedy) == [Release(1, ReleaseReason.OUT_OF_MEMORY)]
    assert await predicted(late) == {1: toy_tokens(range(5), 1)}
    draft.blocks.check_integrity(sequence.text for sequence in late.sequences.values())
