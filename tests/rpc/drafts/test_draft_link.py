"""The draft service as a target meets it: what it predicts, and how it follows what is committed."""

from typing import Any

import grpc
import pytest

from outrider.v1 import common_pb2
from services.draft_protocol.protocol import PROTOCOL_VERSION
from services.engine.decoder.native import BLOCK_SIZE, NOISE_VERSION
from tests.harness.models.checkpoints import VOCAB_SIZE
from tests.harness.servers.server import RunningTarget
from tests.rpc.harness.draft_link import (
    GREEDY,
    MAX_SEQUENCES,
    NUM_BLOCKS,
    PROMPT,
    SAMPLED,
    Link,
    RunningDraft,
    collect,
    follow,
    generate,
    hello_of,
)


def test_the_drafts_hello_describes_its_model(draft: RunningDraft) -> None:
    link = Link(draft, **hello_of(draft))
    hello = link.next().hello
    link.close()
    assert (hello.protocol_version, hello.model) == (PROTOCOL_VERSION, draft.engine.config.model.name)
    assert (hello.context_length, hello.max_sequences) == (NUM_BLOCKS * BLOCK_SIZE, MAX_SEQUENCES)
    assert hello.weight_format == "bf16"
    assert hello.max_cached_tokens == NUM_BLOCKS * BLOCK_SIZE


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("min_protocol_version", 3, "the target speaks protocols 3 to 2; this draft speaks 2"),
        ("max_protocol_version", 1, "the target speaks protocols 2 to 1; this draft speaks 2"),
        ("noise_version", 77, f"the target draws with noise version 77; this draft with {NOISE_VERSION}"),
        (
            "vocabulary_fingerprint",
            "other",
            "the target's vocabulary is another one than the draft's; "
            "on a CPU it can predict for it with --target-tokenizer",
        ),
    ],
)
def test_incompatible_target_and_draft_part_at_once(draft: RunningDraft, field: str, value: Any, reason: str) -> None:
    link = Link(draft, **{**hello_of(draft), field: value})
    assert link.failure() == (grpc.StatusCode.FAILED_PRECONDITION, reason)
    link.close()


def test_a_link_that_does_not_begin_with_a_hello_ends(draft: RunningDraft) -> None:
    link = Link(draft)
    link.open()
    assert link.failure() == (grpc.StatusCode.INVALID_ARGUMENT, "the first message of a link must be a hello")
    link.close()


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_the_draft_predicts_the_tokens_its_model_would_generate(
    link: Link, target: RunningTarget, sampling: dict[str, Any]
) -> None:
    expected = generate(target, PROMPT, 40, sampling)
    link.begin(PROMPT, 13, sampling=sampling)
    position, seen = len(PROMPT), link.predictions(13, position=len(PROMPT))
    while len(seen) + 4 <= len(expected):
        link.commit(position, seen[position - len(PROMPT) :][:4])
        position += 4
        seen += link.predictions(4, position=len(PROMPT) + len(seen))
    assert seen == expected[: len(seen)]
    assert link.epochs[1] == 2, "commits that agree change nothing"


@pytest.mark.parametrize("window", [1, 3, 4, 9])
def test_the_draft_runs_ahead_up_to_the_window_and_not_beyond(link: Link, window: int) -> None:
    link.begin(PROMPT, window)
    first = link.predictions(window, position=len(PROMPT))
    link.assert_silent()
    link.window(window + 5)
    link.predictions(5, position=len(PROMPT) + window)
    link.assert_silent()
    link.commit(len(PROMPT), first[:1])
    link.predictions(1, position=len(PROMPT) + window + 5)
    link.assert_silent()


def test_wanted_predictions_come_in_one_run_and_no_others_follow(link: Link, target: RunningTarget) -> None:
    expected = generate(target, PROMPT, 12, GREEDY)
    link.open(prompt_tokens=len(PROMPT))
    link.commit(0, PROMPT, wanted=9)
    assert [*link.next().predict.token_ids] == expected[:9]
    link.assert_silent()
    link.commit(len(PROMPT), expected[:3])
    link.assert_silent()
    link.commit(len(PROMPT) + 3, [], wanted=9)
    run = link.next().predict
    assert [*run.token_ids] == expected[9:12]
    wrong = (expected[3] + 1) % VOCAB_SIZE
    link.commit(len(PROMPT) + 3, [wrong], wanted=2)
    other = link.next().predict
    assert (other.epoch, other.position, len(other.token_ids)) == (run.epoch + 1, len(PROMPT) + 4, 2)
    link.window(4)
    assert len(link.predictions(2, position=len(PROMPT) + 6)) == 2, "a window takes the place of what was wanted"


def test_a_run_ends_early_below_its_least_chance(link: Link, target: RunningTarget) -> None:
    expected = generate(target, PROMPT, 12, GREEDY)
    link.open(prompt_tokens=len(PROMPT))
    link.commit(0, PROMPT, wanted=9, least_chance=2**32 - 1)
    first = link.next().predict
    assert ([*first.token_ids], first.ends) == (expected[:1], True), "nothing is certain"
    link.assert_silent()
    link.commit(len(PROMPT), expected[:1], wanted=2)
    whole = link.next().predict
    assert ([*whole.token_ids], whole.ends, whole.epoch) == (expected[1:3], False, first.epoch)
    link.commit(len(PROMPT) + 1, expected[1:3], wanted=2, least_chance=1)
    assert not link.next().predict.ends


def test_messages_sent_together_act_as_if_sent_singly(link: Link, target: RunningTarget) -> None:
    expected = generate(target, PROMPT, 3, GREEDY)
    ids = [1, 2, 3]
    opens = [{"open": {"sequence_id": each, "prompt_tokens": len(PROMPT), "sampling": GREEDY}} for each in ids]
    commits = [{"commit": {"sequence_id": each, "token_ids": PROMPT, "wanted": 3}} for each in ids]
    link.send(**opens[0], further=[*opens[1:], *commits, {"close": {"sequence_id": 9}}])
    runs = [link.next().predict for _ in ids]
    assert sorted((run.sequence_id, [*run.token_ids]) for run in runs) == [(each, expected) for each in ids]
    link.assert_silent()


def test_a_window_of_zero_pauses_the_draft(link: Link) -> None:
    link.begin(PROMPT, 0)
    link.assert_silent()
    link.window(2)
    first = link.predictions(2, position=len(PROMPT))
    link.window(0)
    link.commit(len(PROMPT), first)
    link.assert_silent()


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_commit_that_differs_begins_an_epoch_that_continues_it(
    link: Link, target: RunningTarget, sampling: dict[str, Any]
) -> None:
    link.begin(PROMPT, 6, sampling=sampling)
    chain = link.predictions(6, position=len(PROMPT))
    epoch = link.epochs[1]
    other = [chain[0], (chain[1] + 1) % VOCAB_SIZE]
    link.commit(len(PROMPT), other)
    continued = link.predictions(6, position=len(PROMPT) + 2)
    assert link.epochs[1] > epoch
    assert continued == follow(target, other, 6, sampling)


def test_a_commit_beyond_the_chain_is_continued(link: Link, target: RunningTarget) -> None:
    expected = generate(target, PROMPT, 12, GREEDY)
    link.begin(PROMPT, 2)
    link.predictions(2, position=len(PROMPT))
    link.commit(len(PROMPT), expected[:7])
    assert link.predictions(2, position=len(PROMPT) + 7) == expected[7:9]


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_rewind_is_followed(link: Link, target: RunningTarget, kept: int) -> None:
    expected = generate(target, PROMPT, 12, SAMPLED)
    link.begin(PROMPT, 4, sampling=SAMPLED)
    link.predictions(4, position=len(PROMPT))
    link.commit(len(PROMPT), expected[:4])
    link.predictions(4, position=len(PROMPT) + 4)
    link.commit(len(PROMPT) + kept, [])
    assert link.predictions(4, position=len(PROMPT) + kept) == expected[kept : kept + 4]


def test_a_prompt_may_come_in_pieces_and_between_others(link: Link, target: RunningTarget) -> None:
    prompts = {1: [(7 * i) % 400 for i in range(150)], 2: [(11 * i) % 400 for i in range(90)]}
    for sequence_id, prompt in prompts.items():
        link.open(sequence_id, prompt_tokens=len(prompt))
        link.window(4, sequence_id)
    for start in range(0, 150, 30):
        for sequence_id, prompt in prompts.items():
            if piece := prompt[start : start + 30]:
                link.commit(start, piece, sequence_id)
    seen = collect(link, {1: 4, 2: 4})
    assert seen == {sequence_id: generate(target, prompt, 4, GREEDY) for sequence_id, prompt in prompts.items()}


def test_two_links_do_not_affect_each_other(draft: RunningDraft, target: RunningTarget) -> None:
    links = [Link(draft, **hello_of(draft)) for _ in range(2)]
    prompts = [PROMPT, PROMPT[::-1]]
    for link, prompt in zip(links, prompts, strict=True):
        link.next()
        link.begin(prompt, 8)
    seen = [link.predictions(8, position=len(PROMPT)) for link in links]
    links[0].close()
    links[1].commit(len(PROMPT), seen[1])
    seen[1] += links[1].predictions(8, position=len(PROMPT) + 8)
    links[1].close()
    assert seen == [generate(target, PROMPT, 8, GREEDY), generate(target, PROMPT[::-1], 16, GREEDY)]


@pytest.mark.parametrize(("vocab_size", "shared"), [(0, VOCAB_SIZE), (VOCAB_SIZE, VOCAB_SIZE), (VOCAB_SIZE + 64, 0)])
def test_the_hello_has_the_vocabulary_match_and_shared_tokens(
    draft: RunningDraft, vocab_size: int, shared: int
) -> None:
    """Padded otherwise, it can predict the tokens that stand for any bytes."""
    link = Link(draft, **{**hello_of(draft), "vocab_size": vocab_size})
    hello = link.next().hello
    tokenizer = draft.engine.model.tokenizer
    keys = {
        (data, tokenizer.is_special(token_id))
        for token_id in range(tokenizer.vocab_size)
        if (data := tokenizer.token_bytes(token_id))
    }
    assert hello.vocabulary_match == common_pb2.VOCABULARY_MATCH_SAME
    assert hello.shared_tokens == (shared or len(keys))
    link.begin(PROMPT, 2)
    link.predictions(2, position=len(PROMPT))
    link.close()
