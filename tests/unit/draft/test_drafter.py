"""Drafter: which sequence is served next, how far each runs, and what is refused."""

import math

import pytest

from services.draft.link import LinkOverflowError
from services.draft.vocabulary.vocabulary_map import VocabularyMap
from services.draft_protocol.messages import Prediction, Release, ReleaseReason
from tests.unit.merged_tokenizer import merged_tokenizer
from tests.unit.sequences import VOCAB_SIZE, byte_tokenizer
from tests.unit.toy_draft import CONTEXT_LENGTH, PROMPT, Draft, new_sequence, predicted, told, toy_tokens


async def test_without_credit_no_step_is_done():
    draft = Draft()
    assert not draft.drafter.step()
    draft.begin(draft.join(), window=0)
    assert not draft.drafter.step()


@pytest.mark.parametrize("window", [1, 4, 5, 11])
async def test_a_sequence_fills_its_window_in_runs_of_limited_length(window):
    draft = Draft()
    link = draft.join()
    draft.begin(link, window=window)
    draft.run()
    assert all(scheduled.num_draws <= 4 for batch in draft.runner.asked for scheduled in batch)
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
    for batch in draft.runner.asked:
        assert sum(scheduled.num_tokens for scheduled in batch) <= 24
        assert all(scheduled.num_tokens <= 16 for scheduled in batch)
    assert await predicted(link) == {sequence_id: toy_tokens(prompt, 3) for sequence_id, prompt in prompts.items()}


async def test_the_sequence_with_fewest_predictions_is_served_first():
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


async def test_a_link_may_leave_twice():
    draft = Draft()
    link = draft.join()
    draft.begin(link)
    draft.run()
    draft.drafter.abandon("the engine has failed")
    draft.drafter.leave(link)
    draft.blocks.check_integrity([])


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


async def test_opening_an_open_sequence_refuses_it_and_frees_blocks():
    draft = Draft()
    link = draft.join()
    draft.begin(link)
    draft.run()
    await told(link)
    draft.drafter.open(link, 1, new_sequence())
    assert await told(link) == [Release(1, ReleaseReason.REFUSED)]
    draft.blocks.check_integrity([])


async def test_invalid_sampling_parameters_are_refused():
    draft = Draft()
    link = draft.join()
    draft.drafter.open(link, 1, new_sequence(top_p=0.0))
    assert await told(link) == [Release(1, ReleaseReason.REFUSED)]


async def test_an_unread_link_ends_and_keeps_no_more_than_its_capacity():
    draft = Draft()
    link = draft.join(capacity=3)
    for sequence_id in range(1, 100):
        link.send(Release(sequence_id, ReleaseReason.REFUSED))
    with pytest.raises(LinkOverflowError, match="more than 3 messages wait for a target that does not read"):
        await told(link)
    assert link._outbox.qsize() <= 3


async def test_runs_are_short_where_each_token_takes_long():
    draft = Draft(max_run=8, run_seconds=1e-8)
    draft.begin(draft.join(), window=16)
    draft.run()
    (first, *others) = [scheduled.num_draws for batch in draft.runner.asked for scheduled in batch]
    assert first == 8, "nothing is known of its speed yet"
    assert others == [1] * 8


async def test_other_tokens_of_the_same_bytes_cost_no_row():
    """The draft has single bytes; the target has two tokens of two bytes beside them."""
    target = merged_tokenizer([(b",", b"t"), (b" ", b"n")], alphabet=(bytes([byte]) for byte in range(256)))
    sizes = {"own_size": VOCAB_SIZE, "target_size": target.vocab_size}
    draft = Draft()
    link = draft.join()
    vocabulary = VocabularyMap(byte_tokenizer(), target, **sizes, enough=math.inf)
    draft.drafter.open(link, 1, new_sequence(vocabulary=vocabulary))
    draft.drafter.commit(link, 1, 0, PROMPT)
    draft.drafter.window(link, 1, 3)
    draft.run()
    sequence = link.sequences[1]
    epoch, chain, num_asked = sequence.epoch, sequence.chain, len(draft.runner.asked)
    assert chain[:5] == [*b",t nd"]
    draft.drafter.commit(link, 1, len(PROMPT), [*b",t"])
    assert (sequence.epoch, sequence.chain) == (epoch + 1, chain[2:])
    draft.run()
    assert all(scheduled.num_tokens == 1 for batch in draft.runner.asked[num_asked:] for scheduled in batch)
    runs = [run for run in await told(link) if isinstance(run, Prediction)]
    first = [token_id for run in runs if run.epoch == epoch for token_id in run.token_ids]
    second = [run for run in runs if run.epoch == epoch + 1]
    assert first == [256, 257, *b"d"]
    assert [second[0].position, *second[0].token_ids][:3] == [len(PROMPT) + 2, 257, *b"d"]
