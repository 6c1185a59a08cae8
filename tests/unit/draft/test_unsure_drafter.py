"""Drafter: a run ends where it is unlikely to be right, and the target is sent its end, so that it does not wait."""

from services.draft_protocol.messages import Prediction
from tests.unit.toy_draft import PROMPT, Draft, new_sequence, told, toy_tokens


async def runs_of(draft: Draft, *commits: tuple[int, list[int]], least_chance: float) -> list[tuple[list[int], bool]]:
    """Each run that the target is sent, and whether it is marked as ended."""
    link = draft.join()
    draft.drafter.open(link, 1, new_sequence())
    for position, tokens in commits:
        draft.drafter.commit(link, 1, position, tokens, wanted=4, least_chance=least_chance)
        draft.run()
    messages = [message for message in await told(link) if isinstance(message, Prediction)]
    return [([*message.token_ids], message.ends) for message in messages]


async def test_a_run_that_ends_early_resumes_after_the_next_commit():
    draft, expected = Draft(), toy_tokens(PROMPT, 8)
    draft.runner.num_sure = 2
    runs = await runs_of(draft, (0, PROMPT), (len(PROMPT), expected[:3]), least_chance=0.7)
    assert runs == [(expected[:2], True), (expected[3:5], True)]


async def test_a_run_that_is_sure_enough_does_not_end_early():
    draft, expected = Draft(), toy_tokens(PROMPT, 8)
    assert await runs_of(draft, (0, PROMPT), least_chance=0.7) == [(expected[:4], False)]


async def test_a_target_that_wants_all_predictions_gets_them():
    draft, expected = Draft(), toy_tokens(PROMPT, 8)
    draft.runner.num_sure = 2
    assert await runs_of(draft, (0, PROMPT), least_chance=0.0) == [(expected[:4], False)]
