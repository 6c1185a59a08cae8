"""A target that keeps to no protocol costs the draft little, and the honest target beside it nothing but time."""

import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import draft_pb2
from outrider.v1.draft_pb2_grpc import DraftServiceStub
from services.draft import servicer
from services.draft_protocol.protocol import MAX_COMMIT, MAX_REQUESTS
from tests.harness.servers.server import wait_until
from tests.rpc.harness.draft_link import GREEDY, MAX_SEQUENCES, PROMPT, Link, RunningDraft, hello_of

INVALID, EXHAUSTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
_FEW_BYTES = 64 << 20
_MANY = 2_500  # more than may be in vain
_LARGEST = 2**32 - 1


def open_with(**fields: Any) -> dict[str, Any]:
    return {"open": {"sequence_id": 1, "prompt_tokens": 1, "sampling": GREEDY, **fields}}


def resident_bytes() -> int:
    """Memory that this process, the draft in it, holds."""
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


def linked(draft: RunningDraft) -> Link:
    link = Link(draft, **hello_of(draft))
    link.next()
    return link


@pytest.mark.parametrize(
    ("message", "code", "told"),
    [
        ({}, INVALID, "there was a message with none of open, commit, window and close in it"),
        ({"hello": {}}, INVALID, "there was a second hello; a link has one, its first message"),
        ({"further": [{"close": {}}] * MAX_REQUESTS}, INVALID, f"{MAX_REQUESTS + 1} messages came as one; at most 32"),
        ({"close": {}, "further": [{}] * 300_000}, INVALID, "300001 messages came as one"),
        ({"close": {}, "further": [{}] * 600_000}, EXHAUSTED, "larger than max"),
        ({"commit": {"token_ids": [3] * (MAX_COMMIT + 1)}}, INVALID, "commit.token_ids has 8193 entries; at most 8192"),
        ({"commit": {"token_ids": [3] * 900_000}}, INVALID, "commit.token_ids has 900000 entries; at most 8192"),
        ({"commit": {"token_ids": [3] * 2_000_000}}, EXHAUSTED, "larger than max"),
        (open_with(masked_token_ids=[3] * 1025), INVALID, "open.masked_token_ids has 1025 entries; at most 1024"),
        (
            open_with(sampling={**GREEDY, "logit_bias": [{"token_id": each} for each in range(513)]}),
            INVALID,
            "open.sampling.logit_bias has 513 entries; at most 512",
        ),
        (open_with(grammar={"regex": "a" * 65537}), INVALID, "open.grammar has 65537 bytes; at most 65536"),
        (
            open_with(grammar={"choice": {"texts": [""] * 65537}}),
            INVALID,
            "open.grammar.choice.texts has 65537 entries",
        ),
        (open_with(cache={"salt": "a" * 129}), INVALID, "open.cache.salt has 129 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_message_that_is_not_allowed_ends_its_link(
    draft: RunningDraft, link: Link, message: dict[str, Any], code: grpc.StatusCode, told: str
) -> None:
    bad = linked(draft)
    bad.begin(PROMPT, 4)
    bad.send(**message)
    found, details = bad.failure()
    bad.close()
    assert (found, told) == (code, told if told in details else details)
    link.begin(PROMPT, 4)
    link.predictions(4, position=len(PROMPT))


def test_bytes_that_are_no_message_are_refused_and_rarely_logged(
    draft: RunningDraft, link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for _ in range(3):
        with grpc.insecure_channel(draft.address) as channel:
            call = channel.stream_stream("/outrider.v1.DraftService/Draft")
            requests = [draft_pb2.DraftRequest(hello=hello_of(draft)).SerializeToString(), b"\xff" * 100]
            with pytest.raises(grpc.RpcError) as failure:
                list(call(iter(requests), timeout=60))
        assert (failure.value.code(), failure.value.details()) == (INVALID, "there were bytes that are no message")
    assert sum("a target's link is closed" in record.message for record in caplog.records) <= 1
    assert not any(record.exc_info for record in caplog.records)
    link.begin(PROMPT, 4)
    link.predictions(4, position=len(PROMPT))


def commits_to_unknown_sequences(link: Link) -> None:
    for sequence_id in range(100, 100 + _MANY):
        link.commit(0, [3], sequence_id, wanted=_LARGEST)


def windows_of_unknown_sequences(link: Link) -> None:
    for sequence_id in range(100, 100 + _MANY):
        link.window(_LARGEST, sequence_id)


def thousands_of_opens(link: Link) -> None:
    for sequence_id in range(100, 100 + _MANY):
        link.open(sequence_id, masked_token_ids=[3] * 100)


@pytest.mark.parametrize("flood", [commits_to_unknown_sequences, windows_of_unknown_sequences, thousands_of_opens])
def test_a_target_that_sends_useless_messages_is_disconnected(
    draft: RunningDraft, link: Link, flood: Callable[[Link], None]
) -> None:
    bad = linked(draft)
    flood(bad)
    link.begin(PROMPT, 4)
    link.predictions(4, position=len(PROMPT))
    assert bad.failure() == (INVALID, "most of what was said is about sequences that are not open")
    bad.close()


def test_sequences_that_are_never_closed_take_little_memory(draft: RunningDraft, link: Link) -> None:
    links = [linked(draft) for _ in range(4)]
    before = resident_bytes()
    for bad in links:
        for sequence_id in range(1, MAX_SEQUENCES + 1):
            bad.open(sequence_id, prompt_tokens=_LARGEST, masked_token_ids=[3] * 1000, min_tokens=_LARGEST)
            for _ in range(20):
                bad.commit(0, [3] * 200, sequence_id, wanted=_LARGEST)
            bad.commit(_LARGEST, [3], 1000)
    link.begin(PROMPT, 4)
    link.predictions(4, position=len(PROMPT))
    assert resident_bytes() < before + _FEW_BYTES
    for bad in links:
        bad.close()


def test_a_link_holds_at_most_twice_its_cached_tokens(draft: RunningDraft, link: Link) -> None:
    num_cached = draft.engine.model.blocks.num_blocks * draft.engine.model.blocks.block_size
    for sequence_id in (1, 2, 3):
        link.open(sequence_id, prompt_tokens=_LARGEST)
        link.commit(0, [3] * (num_cached - 1), sequence_id)
    message = link.next().released
    assert (message.sequence_id, message.reason) == (3, draft_pb2.RELEASE_REASON_OUT_OF_MEMORY)


def test_the_number_of_links_is_limited(draft: RunningDraft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servicer, "_MOST_LINKS", 3)
    wait_until(lambda: draft.server._servicer._num_links == 0)
    links = [linked(draft) for _ in range(3)]
    refused = Link(draft, **hello_of(draft))
    assert refused.failure() == (EXHAUSTED, "there are 3 links, as many as may be")
    links.pop().close()
    wait_until(lambda: draft.server._servicer._num_links == 2)
    links.append(linked(draft))
    for each in [*links, refused]:
        each.close()


def test_a_link_without_a_hello_is_closed(draft: RunningDraft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servicer, "_HELLO_SECONDS", 0.2)
    mute = Link(draft)
    assert mute.failure() == (INVALID, "there was no hello within 0.2 s")
    mute.close()


def test_a_target_that_never_reads_is_disconnected(draft: RunningDraft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servicer, "_SEND_SECONDS", 0.2)

    def says() -> Iterator[draft_pb2.DraftRequest]:
        yield draft_pb2.DraftRequest(hello=hello_of(draft))
        yield draft_pb2.DraftRequest(**open_with(prompt_tokens=len(PROMPT)))
        for number in count():  # until it is let go
            time.sleep(0.005)  # what is committed together is answered once
            commit = {"sequence_id": 1, "token_ids": [*PROMPT[:-1], number % 400], "wanted": 64}
            yield draft_pb2.DraftRequest(commit=commit)

    wait_until(lambda: draft.server._servicer._num_links == 0)
    holds_little = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1024)]
    with grpc.insecure_channel(draft.address, holds_little) as channel:
        call = DraftServiceStub(channel).Draft(says())
        wait_until(lambda: draft.server._servicer._num_links == 1)
        wait_until(lambda: draft.server._servicer._num_links == 0)
        draft.assert_all_free()
        with pytest.raises(grpc.RpcError) as failure:
            list(call)
    assert (failure.value.code(), failure.value.details()) == (EXHAUSTED, "the target has read nothing for 0.2 s")


def test_a_vocabulary_of_absurd_size_is_refused(draft: RunningDraft) -> None:
    link = Link(draft, **{**hello_of(draft), "vocab_size": _LARGEST})
    told = f"the target's model has {_LARGEST} token ids; this draft knows of {1 << 20} at most"
    assert link.failure() == (grpc.StatusCode.FAILED_PRECONDITION, told)
    link.close()
