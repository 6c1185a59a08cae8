"""Target and draft together: while a pass of the target lasts, the draft predicts on, up to its window."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from services.target.scheduling.scheduled_rows import ScheduledRows
from tests.harness.servers.server import RUN_AHEAD, RunningTarget, target_server, wait_until
from tests.rpc.harness.draft_link import GREEDY, PROMPT, SAMPLED, RunningDraft, generate
from tests.rpc.harness.held_pass import HeldPass
from tests.rpc.harness.requests import Streamed, stream, stream_request

NUM_PREDICTIONS = 4
COUNT = 60  # tokens generated


@pytest.fixture
def target(model: Path, draft: RunningDraft) -> Iterator[RunningTarget]:
    """A target that is linked with the draft; both have the same model, so that every prediction is right."""
    with target_server(model, drafts=[draft.address]) as running:
        running.wait_for_draft()
        yield running
        running.assert_all_free()


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_predictions_come_before_the_verdict_up_to_the_window(
    target: RunningTarget, draft: RunningDraft, sampling: dict[str, Any]
) -> None:
    alone = generate(target, PROMPT, COUNT, sampling)
    hold = HeldPass(target, _has_all_predictions)
    with ThreadPoolExecutor() as threads:
        drafted = threads.submit(_generate_drafted, target, sampling)
        while not hold.is_held.wait(0.01):
            if drafted.done():  # on a busy machine the draft may have been too late for all of it
                drafted = threads.submit(_generate_drafted, target, sampling)
        try:
            wait_until(lambda: len(_chain(target)) >= NUM_PREDICTIONS + RUN_AHEAD)
            wait_until(lambda: not _credit(draft))
            first = hold.num_committed - len(PROMPT)
            assert _chain(target) == alone[first : first + NUM_PREDICTIONS + RUN_AHEAD]
            assert not drafted.done()
        finally:
            hold.may_go_on.set()
        result = drafted.result()
    assert result.token_ids == alone
    assert result.finished.speculation.accepted == result.finished.speculation.predicted > 0


def _has_all_predictions(rows: ScheduledRows) -> bool:
    """Whether the draft has caught up with the target, and has further tokens to predict than the pass verifies."""
    has_further = rows.sequence.num_generated + NUM_PREDICTIONS + RUN_AHEAD < COUNT
    return has_further and rows.is_decode and len(rows.predictions) == NUM_PREDICTIONS


def _generate_drafted(target: RunningTarget, sampling: dict[str, Any]) -> Streamed:
    stop = {"max_tokens": COUNT, "ignore_eos": True}
    always = {"mode": "SPECULATION_MODE_ALWAYS", "num_predictions": NUM_PREDICTIONS}
    return stream(target, stream_request(PROMPT, sampling=sampling, stop=stop, speculation=always))


def _credit(draft: RunningDraft) -> int:
    """How many more tokens the draft may predict now."""
    drafter = draft.engine._drafter
    return sum(sequence.credit for link in drafter.links for sequence in link.sequences.values())


def _chain(target: RunningTarget) -> list[int]:
    """What has been predicted beyond the last commit of the one sequence."""
    assert target.model.drafts is not None
    (remote,) = target.model.drafts.pool.remotes[0]._remotes.values()
    return list(remote.chain.tokens)
