"""The draft service as a target meets it: what it predicts, what it refuses, and what it forgets."""

import asyncio
import queue
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import draft_pb2
from outrider.v1.draft_pb2_grpc import DraftServiceStub
from services.draft.engine import DraftEngine
from services.draft.server import DraftServer
from services.engine.config import EngineConfig, resolve_isa
from services.engine.native import BLOCK_SIZE, NOISE_VERSION
from services.rpc.draft_protocol import PROTOCOL_VERSION
from services.rpc.server_config import ServerConfig
from tests.checkpoints import CONTEXT_LENGTH, VOCAB_SIZE
from tests.rpc.requests import stream, stream_request
from tests.server import RunningTarget, wait_until

MAX_SEQUENCES = 4
NUM_BLOCKS = 24
PROMPT = [5, 77, 130, 21, 300, 42, 9]
GREEDY = {"temperature": 0.0, "top_p": 1.0, "repetition_penalty": 1.0, "seed": 5}
SAMPLED = {**GREEDY, "temperature": 0.8, "top_k": 40, "top_p": 0.9, "frequency_penalty": 0.5}
REFUSED = draft_pb2.RELEASE_REASON_REFUSED
TOO_LONG = draft_pb2.RELEASE_REASON_TOO_LONG
OUT_OF_MEMORY = draft_pb2.RELEASE_REASON_OUT_OF_MEMORY


class RunningDraft:
    """A draft service on a free port, with an event loop on a thread of its own."""

    def __init__(self, model: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.server: DraftServer = self.call(self._make(model))
        self.address: str = self.call(self.server.start())
        self.call(self.server.open())

    @property
    def engine(self) -> DraftEngine:
        assert self.server.engine is not None
        return self.server.engine

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def assert_all_free(self) -> None:
        """Wait until every KV block is free, and see that the engine still works."""
        blocks = self.engine.model.blocks
        wait_until(lambda: blocks.num_free == blocks.num_blocks)
        blocks.check_integrity([])

    def close(self) -> None:
        self.call(self.server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _make(self, model: Path) -> DraftServer:
        config = EngineConfig(
            model=model, isa=resolve_isa(), threads=1, kv_blocks=NUM_BLOCKS, max_sequences=MAX_SEQUENCES, max_rows=64
        )
        return DraftServer(config, ServerConfig(listen="127.0.0.1:0", drain_seconds=0))


class Link:
    """A target's end of one stream."""

    def __init__(self, draft: RunningDraft, **hello: Any) -> None:
        self._channel = grpc.insecure_channel(draft.address, [("grpc.use_local_subchannel_pool", 1)])
        self._requests: queue.Queue[draft_pb2.DraftRequest | None] = queue.Queue()
        self._call = DraftServiceStub(self._channel).Draft(iter(self._requests.get, None), timeout=60)
        self.epochs: dict[int, int] = {}
        self._next_probe = 1000
        if hello:
            self.send(hello=hello)

    def send(self, **message: Any) -> None:
        self._requests.put(draft_pb2.DraftRequest(**message))

    def open(self, sequence_id: int = 1, *, prompt_tokens: int = len(PROMPT), **fields: Any) -> None:
        fields = {"sampling": GREEDY, **fields}
        self.send(open={"sequence_id": sequence_id, "prompt_tokens": prompt_tokens, **fields})

    def commit(self, position: int, token_ids: list[int], sequence_id: int = 1) -> None:
        self.send(commit={"sequence_id": sequence_id, "position": position, "token_ids": token_ids})

    def window(self, tokens: int, sequence_id: int = 1) -> None:
        self.send(window={"sequence_id": sequence_id, "tokens": tokens})

    def begin(self, prompt: list[int], window: int, sequence_id: int = 1, **fields: Any) -> None:
        """Open a sequence, commit its prompt and grant a window."""
        self.open(sequence_id, prompt_tokens=len(prompt), **fields)
        self.commit(0, prompt, sequence_id)
        self.window(window, sequence_id)

    def next(self) -> draft_pb2.DraftResponse:
        return next(self._call)

    def predictions(self, count: int, *, position: int, sequence_id: int = 1) -> list[int]:
        """The next `count` tokens from `position` on; there may be no other message, and no further token, yet."""
        tokens: list[int] = []
        while len(tokens) < count:
            run = self.next().predict
            assert (run.sequence_id, run.position) == (sequence_id, position + len(tokens))
            assert self.epochs.get(sequence_id) in (None, run.epoch) or not tokens
            self.epochs[sequence_id] = run.epoch
            tokens += run.token_ids
        assert len(tokens) == count
        return tokens

    def released(self) -> tuple[int, int]:
        message = self.next()
        assert message.WhichOneof("message") == "released", message
        return message.released.sequence_id, message.released.reason

    def assert_silent(self) -> None:
        """Nothing more is said until a whole step, of which a sequence of its own tells, has gone by."""
        probe, self._next_probe = self._next_probe, self._next_probe + 2
        self.begin(PROMPT, 1, sequence_id=probe)
        self.predictions(1, position=len(PROMPT), sequence_id=probe)
        self.send(close={"sequence_id": probe})
        self.open(sequence_id=probe + 1, sampling={**GREEDY, "top_k": -1})
        assert self.released() == (probe + 1, REFUSED)

    def failure(self) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.RpcError) as failure:
            for _ in self._call:
                pass
        return failure.value.code(), failure.value.details()

    def half_close(self) -> list[draft_pb2.DraftResponse]:
        """Say no more, and read on to the end."""
        self._requests.put(None)
        return [*self._call]

    def close(self) -> None:
        self._requests.put(None)
        self._channel.close()


@pytest.fixture(scope="module")
def shared_draft(model: Path) -> Iterator[RunningDraft]:
    running = RunningDraft(model)
    yield running
    running.close()


@pytest.fixture
def draft(shared_draft: RunningDraft) -> Iterator[RunningDraft]:
    """The shared service; after the test it holds no KV block, and it still predicts."""
    yield shared_draft
    shared_draft.assert_all_free()
    link = Link(shared_draft, **hello_of(shared_draft))
    link.next()
    link.begin(PROMPT, 2)
    link.predictions(2, position=len(PROMPT))
    link.close()
    shared_draft.assert_all_free()


@pytest.fixture
def link(draft: RunningDraft) -> Iterator[Link]:
    """A link behind its hellos."""
    opened = Link(draft, **hello_of(draft))
    opened.next()
    yield opened
    opened.close()


def hello_of(draft: RunningDraft) -> dict[str, Any]:
    return {
        "min_protocol_version": PROTOCOL_VERSION,
        "max_protocol_version": PROTOCOL_VERSION,
        "noise_version": NOISE_VERSION,
        "vocabulary_fingerprint": draft.engine.model.tokenizer.fingerprint(),
    }


def generate(target: RunningTarget, prompt: list[int], count: int, sampling: dict[str, Any]) -> list[int]:
    """What the same model generates as a target."""
    stop = {"max_tokens": count, "ignore_eos": True}
    never = {"mode": "SPECULATION_MODE_NEVER"}
    return stream(target, stream_request(prompt, sampling=sampling, stop=stop, speculation=never)).token_ids


def test_the_draft_says_who_it_is(draft: RunningDraft) -> None:
    link = Link(draft, **hello_of(draft))
    hello = link.next().hello
    link.close()
    assert (hello.protocol_version, hello.model) == (PROTOCOL_VERSION, draft.engine.config.model.name)
    assert (hello.context_length, hello.max_sequences) == (NUM_BLOCKS * BLOCK_SIZE, MAX_SEQUENCES)
    assert hello.max_cached_tokens == NUM_BLOCKS * BLOCK_SIZE


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("min_protocol_version", 2, "the target speaks protocols 2 to 1; this draft speaks 1"),
        ("max_protocol_version", 0, "the target speaks protocols 1 to 0; this draft speaks 1"),
        ("noise_version", 77, f"the target draws with noise version 77; this draft with {NOISE_VERSION}"),
        ("vocabulary_fingerprint", "other", "the target's vocabulary is another one than the draft's"),
    ],
)
def test_two_that_cannot_work_together_part_at_once(draft: RunningDraft, field: str, value: Any, reason: str) -> None:
    link = Link(draft, **{**hello_of(draft), field: value})
    assert link.failure() == (grpc.StatusCode.FAILED_PRECONDITION, reason)
    link.close()


def test_a_link_that_does_not_begin_with_a_hello_ends(draft: RunningDraft) -> None:
    link = Link(draft)
    link.open()
    assert link.failure() == (grpc.StatusCode.INVALID_ARGUMENT, "the first message of a link must be a hello")
    link.close()


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_the_draft_predicts_what_its_model_would_generate(
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
    link.commit(len(PROMPT), first[:1])
    link.predictions(1, position=len(PROMPT) + window)
    link.assert_silent()


def test_a_window_of_nothing_pauses(link: Link) -> None:
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


def test_two_links_mix_nothing(draft: RunningDraft, target: RunningTarget) -> None:
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


def test_a_link_has_no_more_sequences_than_it_may(link: Link) -> None:
    for sequence_id in range(1, MAX_SEQUENCES + 2):
        link.open(sequence_id)
    assert link.released() == (MAX_SEQUENCES + 1, REFUSED)
    link.send(close={"sequence_id": 1})
    link.begin(PROMPT, 1, sequence_id=MAX_SEQUENCES + 2)
    link.predictions(1, position=len(PROMPT), sequence_id=MAX_SEQUENCES + 2)


def test_a_sequence_that_the_cache_cannot_hold_is_released_and_the_others_go_on(link: Link) -> None:
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
        {"sampling": {}},
        {"sampling": {**GREEDY, "logit_bias": [{"token_id": VOCAB_SIZE, "bias": 1.0}]}},
        {"sampling": {**GREEDY, "logit_bias": [{"token_id": 2**32 - 1, "bias": 1.0}]}},
        {"masked_token_ids": [2**32 - 1]},
        {"masked_token_ids": [VOCAB_SIZE], "min_tokens": 2**32 - 1},
    ],
    ids=str,
)
def test_a_sequence_that_nobody_can_draw_for_is_refused(link: Link, fields: dict[str, Any]) -> None:
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


def test_an_id_that_is_open_already_is_refused_and_what_it_held_is_free(link: Link) -> None:
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


@pytest.mark.parametrize("message", [{"hello": {}}, {}], ids=["a second hello", "an empty message"])
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


def test_a_link_that_says_no_more_ends_in_order_and_frees_all(draft: RunningDraft, link: Link) -> None:
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


def follow(target: RunningTarget, generated: list[int], count: int, sampling: dict[str, Any]) -> list[int]:
    """What the same model generates as a target behind some tokens that it has generated, so they say, before."""
    started = stream(target, stream_request(PROMPT, sampling=sampling)).started
    request = stream_request(
        PROMPT,
        sampling=sampling,
        stop={"max_tokens": len(generated) + count, "ignore_eos": True},
        continue_from={"fingerprint": started.fingerprint, "token_ids": generated},
    )
    return stream(target, request).token_ids


def collect(link: Link, counts: dict[int, int]) -> dict[int, list[int]]:
    """The predictions of several sequences, in whatever order they come."""
    seen: dict[int, list[int]] = {sequence_id: [] for sequence_id in counts}
    while any(len(seen[sequence_id]) < count for sequence_id, count in counts.items()):
        run = link.next().predict
        seen[run.sequence_id] += run.token_ids
    return seen
