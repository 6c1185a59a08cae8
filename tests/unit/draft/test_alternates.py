"""Alternates: what a draft has ready in case a prediction is wrong, and the blocks that this takes."""

import pytest

from services.draft.link import DraftLink
from services.draft_protocol.messages import AlternatePrediction, Prediction
from tests.unit.toy_draft import PROMPT, Draft, runner_up, told, toy_tokens

START = len(PROMPT)
CHAIN = toy_tokens(PROMPT, 6)


def begin(draft: Draft, *, num_alternates: int = 3, window: int = 6) -> DraftLink:
    """A link with a sequence that has all the chain that its window allows."""
    link = draft.join()
    draft.begin(link, window=window)
    draft.drafter.window(link, 1, window, num_alternates)
    draft.run()
    return link


def branch(place: int, length: int = 6) -> list[int]:
    """What the toy model predicts if the prediction in this place is wrong."""
    first = [*CHAIN[:place], runner_up(CHAIN[place])]
    return [first[-1], *toy_tokens([*PROMPT, *first], length - 1)]


def check_blocks(draft: Draft, link: DraftLink) -> None:
    draft.blocks.check_integrity(
        owner.text for sequence in link.sequences.values() for owner in (sequence, *draft.alternates(sequence))
    )


async def test_the_next_predictions_have_an_alternate_each():
    draft = Draft()
    link = begin(draft)
    messages = await told(link)
    alternates = [message for message in messages if isinstance(message, AlternatePrediction)]
    assert [(a.position, [a.token_id, *a.token_ids]) for a in alternates] == [
        (START + place, branch(place)) for place in range(3)
    ]
    assert {alternate.from_epoch for alternate in alternates} == {link.sequences[1].epoch}
    epochs = [alternate.epoch for alternate in alternates]
    assert len({*epochs, link.sequences[1].epoch}) == 4
    assert min(epochs) > link.sequences[1].epoch
    assert [token for run in messages if isinstance(run, Prediction) for token in run.token_ids] == CHAIN


async def test_without_wanted_alternates_none_is_prepared():
    draft = Draft()
    messages = await told(begin(draft, num_alternates=0))
    assert not any(isinstance(message, AlternatePrediction) for message in messages)


@pytest.mark.parametrize("place", range(3))
async def test_a_wrong_prediction_with_an_alternate_needs_no_new_run(place):
    draft = Draft()
    link = begin(draft)
    sequence = link.sequences[1]
    (epoch,) = [alternate.epoch for alternate in draft.alternates(sequence) if alternate.position == START + place]
    asked = len(draft.runner.asked)
    committed = [*CHAIN[:place], branch(place)[0]]
    draft.drafter.commit(link, 1, START, committed)
    assert (sequence.epoch, sequence.chain) == (epoch, branch(place)[1:])
    check_blocks(draft, link)
    draft.run()
    rows = sum(
        scheduled.num_tokens
        for step in draft.runner.asked[asked:]
        for scheduled in step
        if scheduled.sequence is sequence
    )
    assert rows == 1, "only the last token of the branch had not been computed"
    assert sequence.chain == toy_tokens([*PROMPT, *committed], 6)
    assert [a.position for a in draft.alternates(sequence)] == [START + len(committed) + offset for offset in range(3)]
    check_blocks(draft, link)
    messages = await told(link)
    alternates = [message for message in messages if isinstance(message, AlternatePrediction)]
    assert [each.from_epoch for each in alternates[3:]] == [epoch] * 3, "those that are new branch off the branch"
    runs = [run for run in messages if isinstance(run, Prediction) and run.epoch == epoch]
    assert [runs[0].position, *runs[0].token_ids] == [START + len(committed) + 5, sequence.chain[5]]


async def test_a_branch_not_sent_yet_is_sent_once_it_is_committed():
    draft = Draft(max_run=1)
    link = draft.join()
    draft.begin(link)
    draft.drafter.window(link, 1, 6, 1)
    while not any(alternate.branch for alternate in draft.alternates(link.sequences[1])):
        draft.drafter.step()
    draft.drafter.step()
    first, *others = branch(0)
    draft.drafter.commit(link, 1, START, [first])
    draft.run()
    sequence = link.sequences[1]
    messages = await told(link)
    assert not any(isinstance(each, AlternatePrediction) and each.epoch == sequence.epoch for each in messages)
    runs = [run for run in messages if isinstance(run, Prediction) and run.epoch == sequence.epoch]
    assert [token for run in runs for token in run.token_ids][: len(others)] == others


async def test_an_unexpected_token_starts_an_epoch_above_all_others():
    draft = Draft()
    link = begin(draft)
    sequence = link.sequences[1]
    highest = max(alternate.epoch for alternate in draft.alternates(sequence))
    draft.drafter.commit(link, 1, START, [runner_up(runner_up(CHAIN[0]))])
    assert sequence.epoch > highest
    assert draft.alternates(sequence) == []
    check_blocks(draft, link)


async def test_right_predictions_drop_the_alternates_before_them():
    draft = Draft()
    link = begin(draft)
    draft.drafter.commit(link, 1, START, CHAIN[:2])
    assert [alternate.position for alternate in draft.alternates(link.sequences[1])] == [START + 2]
    check_blocks(draft, link)


async def test_alternates_make_way_for_chains():
    draft = Draft(num_blocks=8)
    link = begin(draft)
    assert draft.alternates(link.sequences[1])
    draft.begin(link, 2, window=6, prompt=[*b"another prompt"])
    draft.run()
    assert link.sequences[2].chain
    check_blocks(draft, link)


async def test_closing_a_sequence_frees_its_alternates():
    draft = Draft()
    link = begin(draft)
    draft.drafter.close(link, 1)
    assert draft.blocks.num_free == 64
    draft.blocks.check_integrity([])
