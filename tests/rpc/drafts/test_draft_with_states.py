"""A draft whose layers carry states: it predicts as if it had never predicted anything wrong."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import (
    GREEDY,
    MAX_SEQUENCES,
    OUT_OF_MEMORY,
    PROMPT,
    SAMPLED,
    Link,
    RunningDraft,
    generate,
    hello_of,
)
from tests.rpc.harness.requests import stream, stream_request

LENGTH = 40


@pytest.fixture(scope="module")
def folder() -> Path:
    return further_checkpoint(Further.QWEN3_5)


@pytest.fixture(scope="module")
def shared_draft(folder: Path) -> Iterator[RunningDraft]:
    with closing(RunningDraft(folder)) as running:
        yield running


@pytest.fixture(scope="module")
def target(folder: Path, shared_draft: RunningDraft) -> Iterator[RunningTarget]:
    """With the draft's own model, so that each prediction must be right."""
    with target_server(folder, drafts=[shared_draft.address], lookup=False) as running:
        running.wait_for_draft()
        yield running
        running.assert_all_free()


@pytest.fixture
def link(draft: RunningDraft) -> Iterator[Link]:
    with closing(Link(draft, **hello_of(draft))) as opened:
        opened.next()
        yield opened


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_predictions_of_the_same_model_are_right(target: RunningTarget, sampling: dict[str, Any]) -> None:
    stop = {"max_tokens": LENGTH, "ignore_eos": True}
    always = {"mode": "SPECULATION_MODE_ALWAYS", "num_predictions": 5}
    drafted = stream(target, stream_request(PROMPT, sampling=sampling, stop=stop, speculation=always))
    assert drafted.token_ids == generate(target, PROMPT, LENGTH, sampling)
    assert drafted.finished.speculation.accepted == drafted.finished.speculation.predicted > 0


@pytest.mark.parametrize("num_right", [0, 1, 4, 7])
def test_a_contradicted_chain_leaves_no_trace(target: RunningTarget, link: Link, num_right: int) -> None:
    """Each commit accepts some predictions, and has another token after them."""
    text = [*PROMPT]
    link.begin(text, 7)
    for _ in range(5):
        chain = link.predictions(7, position=len(text))
        assert chain == generate(target, text, 7, GREEDY)
        committed = [*chain[:num_right], (chain[num_right % 7] + 1) % 512]
        link.commit(len(text), committed)
        text += committed
        link.window(7)


def test_the_kept_state_of_an_answer_moves_along(draft: RunningDraft, link: Link) -> None:
    """Each chain is accepted, and a token more is committed."""
    text = [*PROMPT]
    link.begin(text, 15)
    for _ in range(8):
        committed = [*link.predictions(15, position=len(text)), 7]
        link.commit(len(text), committed)
        text += committed
        link.window(15)
    link.predictions(15, position=len(text))
    (followed,) = draft.engine._drafter.links[-1].sequences.values()
    assert sum(block in draft.engine.blocks._checkpoints for block in followed.text.blocks) == 1


@pytest.mark.parametrize(("start", "kept"), [(10, 0), (38, 32)])
def test_a_text_that_is_cut_begins_anew(
    target: RunningTarget, draft: RunningDraft, link: Link, start: int, kept: int
) -> None:
    """What is cut was in its state; there is a kept one at 32."""
    text = [*PROMPT, *range(100, 140)]
    link.open()
    link.commit(0, text)
    link.window(3)
    link.predictions(3, position=len(text))
    before = draft.engine._drafter.counts.rows
    link.commit(start, [7, 8])
    link.window(3)
    text = [*text[:start], 7, 8]
    assert link.predictions(3, position=len(text)) == generate(target, text, 3, GREEDY)
    assert len(text) - kept <= draft.engine._drafter.counts.rows - before < len(text) - kept + 3


def test_a_sequence_without_a_slot_is_released(draft: RunningDraft, link: Link) -> None:
    with closing(Link(draft, **hello_of(draft))) as other:
        other.next()
        for number in range(MAX_SEQUENCES):
            link.begin(PROMPT, 1, sequence_id=number)
            link.predictions(1, position=len(PROMPT), sequence_id=number)
        other.begin(PROMPT, 1)
        assert other.released() == (1, OUT_OF_MEMORY)
        link.send(close={"sequence_id": 0})
        link.assert_silent()
