"""The draft service as a target meets it: what it refuses, what it releases, and what it forgets."""

from typing import Any

import grpc
import pytest

from services.draft_protocol.protocol import MAX_COMMIT
from services.engine.decoder.native import BLOCK_SIZE
from tests.harness.models.checkpoints import CONTEXT_LENGTH, VOCAB_SIZE
from tests.harness.servers.server import wait_until
from tests.rpc.harness.draft_link import (
    GREEDY,
    MAX_SEQUENCES,
    NUM_BLOCKS,
    OUT_OF_MEMORY,
    PROMPT,
    REFUSED,
    TOO_LONG,
    Link,
    RunningDraft,
    hello_of,
)

_MANY = 2_500  # twice as many as may be unheard


def test_a_link_has_no_more_sequences_than_it_may(link: Link) -> None:
    for sequence_id in range(1, MAX_SEQUENCES + 2):
        link.open(sequence_id)
    assert link.released() == (MAX_SEQUENCES + 1, REFUSED)
    link.send(close={"sequence_id": 1})
    link.begin(PROMPT, 1, sequence_id=MAX_SEQUENCES + 2)
    link.predictions(1, position=len(PROMPT), sequence_id=MAX_SEQUENCES + 2)


def test_a_sequence_beyond_the_cache_is_released_and_others_run(link: Link) -> None:
    link.begin(PROMPT, 2)
    link.predictions(2, position=len(PROMPT))
    link.begin([3] * (NUM_BLOCKS * BLOCK_SIZE - 1), 1, sequence_id=2)
    assert link.released() == (2, OUT_OF_MEMORY)
    link.window(4)
    link.predictions(2, position=len(PROMPT) + 2)


def test_a_sequence_longer_than_the_context_is_released(link: Link) -> None:
    assert NUM_BLOCKS * BLOCK_SIZE <= CONTEXT_LENGTH
    link.open()
    link.commit(0, [3] * (NUM_BLOCKS * BLOCK_SIZE + 1))
    assert link.released() == (1, TOO_LONG)


def test_a_window_of_absurd_size_is_cut(link: Link) -> None:
    link.begin(PROMPT, 2**32 - 1)
    link.predictions(64, position=len(PROMPT))
    link.assert_silent()


@pytest.mark.parametrize(
    "fields",
    [
        {"sampling": {**GREEDY, "temperature": float("nan")}},
        {"sampling": {**GREEDY, "top_k": -1}},
        {"sampling": {**GREEDY, "top_p": 0.0}},
        {"sampling": {**GREEDY, "logit_bias": [{"token_id": VOCAB_SIZE, "bias": 1.0}]}},
        {"sampling": {**GREEDY, "logit_bias": [{"token_id": 2**32 - 1, "bias": 1.0}]}},
        {"masked_token_ids": [2**32 - 1]},
        {"masked_token_ids": [VOCAB_SIZE], "min_tokens": 2**32 - 1},
    ],
    ids=str,
)
def test_a_sequence_with_invalid_sampling_is_refused(link: Link, fields: dict[str, Any]) -> None:
    link.begin(PROMPT, 4, sequence_id=1)
    link.predictions(4, position=len(PROMPT))
    link.begin(PROMPT, 4, sequence_id=2, **fields)
    assert link.released() == (2, REFUSED)
    link.assert_silent()


@pytest.mark.parametrize("bad", [VOCAB_SIZE, 2**31, 2**32 - 1])
@pytest.mark.parametrize("where", ["prompt", "generated"])
def test_tokens_that_the_vocabulary_lacks_are_refused(link: Link, bad: int, where: str) -> None:
    if where == "prompt":
        link.begin([*PROMPT[:-1], bad], 4)
    else:
        link.begin(PROMPT, 4)
        link.predictions(4, position=len(PROMPT))
        link.commit(len(PROMPT), [bad])
    assert link.released() == (1, REFUSED)
    link.assert_silent()


def test_a_gap_is_refused(link: Link) -> None:
    link.open()
    link.commit(1, [3])
    assert link.released() == (1, REFUSED)


def test_an_open_id_is_refused_and_its_blocks_are_freed(link: Link) -> None:
    link.begin(PROMPT, 4)
    link.predictions(4, position=len(PROMPT))
    link.open()
    assert link.released() == (1, REFUSED)
    link.assert_silent()


def test_messages_about_unknown_sequences_are_left_alone(link: Link) -> None:
    link.commit(0, PROMPT, sequence_id=2**64 - 1)
    link.window(2**32 - 1, sequence_id=17)
    link.send(close={"sequence_id": 18})
    link.assert_silent()


def test_a_closed_sequence_is_silent(link: Link) -> None:
    link.begin(PROMPT, 4)
    chain = link.predictions(4, position=len(PROMPT))
    link.send(close={"sequence_id": 1})
    link.commit(len(PROMPT), chain)
    link.assert_silent()


@pytest.mark.parametrize(
    "message",
    [{"hello": {}}, {}, {"commit": {"sequence_id": 1, "token_ids": [3] * (MAX_COMMIT + 1)}}],
    ids=["a second hello", "an empty message", "a commit that is too long"],
)
def test_a_message_that_has_no_place_ends_its_link_and_no_other(
    draft: RunningDraft, link: Link, message: dict[str, Any]
) -> None:
    bad = Link(draft, **hello_of(draft))
    bad.begin(PROMPT, 4)
    bad.send(**message)
    assert bad.failure()[0] is grpc.StatusCode.INVALID_ARGUMENT
    bad.close()
    link.begin(PROMPT, 4)
    link.predictions(4, position=len(PROMPT))


def test_a_flooding_target_is_held_back_until_it_is_read(draft: RunningDraft, link: Link) -> None:
    link.begin(PROMPT, 4)
    chain = link.predictions(4, position=len(PROMPT))
    with draft.held() as num_unheard:
        for number in range(_MANY):
            link.window(number % 4)
        wait_until(lambda: num_unheard() >= 1000)
        other = Link(draft, **hello_of(draft))
        other.next()  # the others are not held back
        assert num_unheard() <= 1024 + 3  # with the question whether all is heard, and what the other link brings
    other.begin(PROMPT, 4)
    assert other.predictions(4, position=len(PROMPT)) == chain
    other.close()
    link.window(6)
    link.predictions(2, position=len(PROMPT) + 4)


def test_a_target_that_leaves_while_it_is_held_back_is_forgotten(draft: RunningDraft) -> None:
    link = Link(draft, **hello_of(draft))
    link.next()
    link.begin(PROMPT, 4)
    link.predictions(4, position=len(PROMPT))
    with draft.held() as num_unheard:
        for _ in range(_MANY):
            link.window(1)
        full = 1024 - 3 + 1  # without those that began it, and with the question whether all is heard
        wait_until(lambda: num_unheard() == full)
        link.close()
        wait_until(lambda: num_unheard() == full + 1)
    draft.assert_all_free()


def test_a_half_closed_link_ends_in_order_and_frees_all(draft: RunningDraft, link: Link) -> None:
    link.begin(PROMPT, 4)
    link.predictions(4, position=len(PROMPT))
    assert link.half_close() == []
    draft.assert_all_free()


def test_a_link_that_is_cut_frees_all(draft: RunningDraft) -> None:
    link = Link(draft, **hello_of(draft))
    for sequence_id in range(1, MAX_SEQUENCES + 1):
        link.begin(PROMPT * 5, 60, sequence_id=sequence_id)
    link.next()
    link.close()
    draft.assert_all_free()
