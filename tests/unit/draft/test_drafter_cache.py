"""Drafter: blocks of committed tokens are found again, and no others."""

import pytest

from services.draft.drafted_sequence import DraftedSequence
from services.draft.vocabulary.identity_translation import IdentityTranslation
from services.engine.sampling_params import SamplingParams
from tests.unit.sequences import VOCAB_SIZE
from tests.unit.toy_draft import PROMPT, Draft, new_sequence, predicted, told, toy_tokens

LONG = [*range(22)]  # five blocks of four, and two tokens


def num_computed(draft: Draft) -> int:
    """Tokens that the draft was asked to compute since it was last asked here."""
    asked = sum(scheduled.num_tokens for batch in draft.runner.asked for scheduled in batch)
    draft.runner.asked.clear()
    return asked


async def test_a_reopened_sequence_continues_from_its_blocks():
    draft = Draft()
    first = draft.join()
    draft.begin(first, prompt=LONG, window=1)
    draft.run()
    assert num_computed(draft) == len(LONG)
    draft.drafter.leave(first)
    assert draft.blocks.num_free == draft.blocks.num_blocks
    again = draft.join()
    draft.begin(again, prompt=LONG, window=3)
    draft.run()
    assert num_computed(draft) == 2
    assert await predicted(again) == {1: toy_tokens(LONG, 3)}
    draft.blocks.check_integrity(sequence.text for sequence in again.sequences.values())


async def test_links_share_blocks_of_a_common_prefix():
    draft = Draft()
    links = [draft.join(), draft.join()]
    for link, tail in zip(links, ([100], [101, 102]), strict=True):
        draft.begin(link, prompt=[*LONG, *tail], window=1)
        draft.run()
    assert num_computed(draft) == len(LONG) + 1 + 4
    mine, other = (link.sequences[1].text.blocks for link in links)
    assert mine[:5] == other[:5]
    draft.blocks.check_integrity(sequence.text for link in links for sequence in link.sequences.values())


async def test_a_prompt_that_comes_in_pieces_is_found_piece_by_piece():
    draft = Draft()
    link = draft.join()
    draft.begin(link, 1, prompt=LONG, window=1)
    draft.run()
    num_computed(draft)
    draft.drafter.open(link, 2, new_sequence(num_prompt=len(LONG)))
    draft.drafter.window(link, 2, 1)
    for start in range(0, len(LONG), 9):
        draft.drafter.commit(link, 2, start, LONG[start : start + 9])
        draft.run()
    assert num_computed(draft) < len(LONG)
    assert [run.token_ids for run in await told(link)] == [tuple(toy_tokens(LONG, 1))] * 2


async def test_uncommitted_predictions_are_not_found_in_the_cache():
    draft = Draft()
    link = draft.join()
    draft.begin(link, prompt=PROMPT, window=12)
    draft.run()
    chain = (await predicted(link))[1]
    draft.drafter.close(link, 1)
    num_computed(draft)
    draft.begin(link, 2, prompt=[*PROMPT, *chain], window=1)
    draft.run()
    assert num_computed(draft) == len(PROMPT) + len(chain) - 4


async def test_predictions_are_found_once_they_are_committed():
    draft = Draft()
    link = draft.join()
    draft.begin(link, prompt=PROMPT, window=12)
    draft.run()
    chain = (await predicted(link))[1]
    draft.drafter.commit(link, 1, len(PROMPT), chain)
    draft.drafter.close(link, 1)
    num_computed(draft)
    draft.begin(link, 2, prompt=[*PROMPT, *chain], window=1)
    draft.run()
    assert num_computed(draft) == 1


async def test_a_rewind_into_a_cached_block_continues_in_a_copy():
    draft = Draft()
    link = draft.join()
    draft.begin(link, prompt=LONG, window=1)
    draft.run()
    (cached,) = (sequence.text.blocks[2] for sequence in link.sequences.values())
    draft.drafter.commit(link, 1, 10, [200, 201, 202])
    draft.run()
    ((source, copy),) = draft.copies
    assert source == cached
    assert link.sequences[1].text.blocks[2] == copy
    draft.blocks.check_integrity(sequence.text for sequence in link.sequences.values())
    num_computed(draft)
    draft.begin(link, 2, prompt=LONG, window=1)
    draft.run()
    assert num_computed(draft) == 2


@pytest.mark.parametrize(("scope", "other"), [(None, None), ("", "salt")])
async def test_only_sequences_of_one_scope_share(scope: str | None, other: str | None):
    draft = Draft()
    link = draft.join()
    for sequence_id, cache_scope in ((1, scope), (2, other)):
        params = SamplingParams(seed=1, temperature=0.0)
        sequence = DraftedSequence(
            params,
            IdentityTranslation(VOCAB_SIZE),
            num_prompt=22,
            min_tokens=0,
            masked_ids=[],
            cache_scope=cache_scope,
        )
        draft.drafter.open(link, sequence_id, sequence)
        draft.drafter.commit(link, sequence_id, 0, LONG)
        draft.drafter.window(link, sequence_id, 1)
        draft.run()
    assert num_computed(draft) == 2 * len(LONG)
