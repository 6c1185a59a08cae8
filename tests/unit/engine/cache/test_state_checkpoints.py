"""Checkpoints of states: texts find blocks only up to one, and no slot is lost or has two owners."""

from collections.abc import Callable
from collections.abc import Sequence as Seq

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.engine.cache.block_manager import BlockManager
from services.engine.cache.cached_tokens import CachedTokens
from services.engine.cache.kv_offload import KvOffload
from services.engine.cache.memory_pages import MemoryPages
from services.engine.cache.page_store import Page
from services.engine.cache.state_checkpoints import StateCheckpoints
from services.engine.cache.state_pages import StatePages

BLOCK_SIZE = 4
NUM_SLOTS = 4
TOKENS = [*range(40)]
PAGE_BYTES = 100
STATE_BYTES = 512  # which takes six pages


class States(BlockManager):
    """A block manager whose slots hold the tokens that a state has seen."""

    def __init__(self, num_blocks: int = 24, num_checkpoints: int = 3, num_pages: int = 0) -> None:
        offload = self._offload_to(MemoryPages(num_slots=num_pages, page_bytes=PAGE_BYTES)) if num_pages else None
        slots = range(NUM_SLOTS, NUM_SLOTS + num_checkpoints)
        checkpoints = StateCheckpoints(slots, self._copy, offload.save_state if offload else None)
        super().__init__(
            num_blocks=num_blocks,
            block_size=BLOCK_SIZE,
            num_slots=NUM_SLOTS,
            checkpoints=checkpoints,
            copy_block=lambda *_: None,
            offload=offload,
        )
        self.seen: dict[int, list[int]] = {}

    def _offload_to(self, store: MemoryPages) -> KvOffload:
        states = StatePages(store, state_bytes=STATE_BYTES, read_state=self._read, write_state=self._write)
        return KvOffload(store, read_block=lambda *_: None, write_block=lambda *_: None, states=states)

    def _read(self, slot: int, page: Page) -> None:
        page[:] = np.pad(np.array([len(self.seen[slot]), *self.seen[slot]], np.int64), (0, 64))[:64].view(np.uint8)

    def _write(self, slot: int, page: Page) -> None:
        length, *tokens = page.view(np.int64).tolist()
        self.seen[slot] = tokens[:length]

    def begin(self, tokens: list[int]) -> CachedTokens:
        text = CachedTokens(tokens, cache_scope="")
        self.reuse(text)
        self.grow(text, len(tokens))
        return text

    def compute(self, text: CachedTokens, num_certain: int, drawn: Seq[int] = ()) -> None:
        """A pass over the next tokens, as the runner and the scheduler do it; all of `drawn` but one were predicted."""
        self.grow(text, len(text.tokens))
        self.plan_checkpoint(text, num_certain, is_prompt=text.num_pending > 1)
        assert text.slot is not None
        if text.kept is not None:
            assert text.state_position <= text.kept.position <= text.num_computed + num_certain
            assert text.kept.position % BLOCK_SIZE == 0
            self.seen[text.kept.slot] = text.tokens[: text.kept.position]
        self.seen[text.slot] = text.tokens[: text.num_computed + num_certain]
        text.tokens += drawn
        text.settle(text.num_computed + num_certain, max(len(drawn) - 1, 0))
        self.keep(text, text.num_computed)

    def _copy(self, source: int, target: int) -> None:
        self.seen[target] = self.seen[source]


def answered(states: States, prompt: list[int], answer: list[int]) -> CachedTokens:
    """A text whose prompt was computed whole, and whose answer token by token."""
    text = states.begin(prompt)
    for token_id in answer:
        states.compute(text, text.num_pending, [token_id])
    return text


def test_prompts_and_answers_are_found_to_their_last_full_blocks():
    states = States()
    states.release(answered(states, TOKENS[:10], TOKENS[10:23]))
    for length, found in ((11, 8), (9, 8), (8, 0), (30, 20), (21, 20), (20, 8)):  # 22 of the 23 tokens were computed
        text = states.begin(TOKENS[:length])
        assert (text.num_computed, text.state_position) == (found, found), length
        assert text.slot is not None
        assert found == 0 or states.seen[text.slot] == TOKENS[:found]
        states.release(text)


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5, 7, 16])
def test_a_prompt_in_chunks_of_any_size_keeps_its_last_state(chunk):
    states = States()
    text = states.begin(TOKENS[:15])
    while text.num_pending > chunk:
        states.compute(text, chunk)
    states.compute(text, text.num_pending, [7])
    states.release(text)
    assert states.begin(TOKENS[:16]).state_position == 12


def test_blocks_without_a_state_are_found_in_vain():
    states = States()
    states.release(answered(states, TOKENS[:10], TOKENS[10:23]))
    before = states.num_stateless
    states.release(states.begin(TOKENS[:18]))
    assert states.num_stateless - before == 8  # four blocks were there, and a state after two of them


def test_the_least_recently_used_state_is_evicted_first():
    states = States(num_checkpoints=2)
    prompts = [[start + token for token in range(9)] for start in (0, 100, 200)]

    def found(prompt: list[int]) -> int:
        text = states.begin(prompt)
        states.release(text)
        return text.state_position

    for prompt in prompts[:2]:
        states.release(answered(states, prompt, [1]))
    assert found(prompts[0]) == 8
    states.release(answered(states, prompts[2], [1]))
    assert [found(prompt) for prompt in prompts] == [8, 0, 8]


def test_evicted_states_come_back_from_the_offload():
    states = States(num_checkpoints=1, num_pages=100)
    for start in (0, 100, 200):
        states.release(answered(states, [start + token for token in range(9)], [1]))
    for start in (0, 100, 200):
        text = states.begin([start + token for token in range(12)])
        assert text.slot is not None
        assert (text.state_position, states.seen[text.slot]) == (8, [start + token for token in range(8)])
        states.release(text)


def test_a_text_that_lost_its_tokens_restarts_at_its_last_state():
    states = States()
    text = answered(states, TOKENS[:10], TOKENS[10:23])
    del text.tokens[12:]
    text.settle(text.state_position)
    states.restart_if_rewound(text)
    states.grow(text, 12)
    assert text.slot is not None
    assert (text.num_computed, text.state_position, states.seen[text.slot]) == (8, 8, TOKENS[:8])


def test_a_rewound_text_without_a_slot_loses_replaced_blocks():
    states = States()
    states.release(answered(states, TOKENS[:10], TOKENS[10:13]))
    text = CachedTokens([*TOKENS[:10], 50], cache_scope="")
    states.reuse(text)
    assert (text.num_computed, text.slot) == (8, None)
    text.rewind(6, [99])
    states.restart_if_rewound(text)
    states.reuse(text)
    assert text.num_computed <= 4


def pinned(states: States, tokens: list[int]) -> CachedTokens:
    """A text that has ended after its full blocks, which a session pins."""
    text = states.begin(tokens)
    if text.num_pending > 1:
        states.compute(text, text.num_pending - 1)
    states.pin(text)
    return text


def test_a_pinned_state_outlives_others_and_a_cleared_cache():
    states = States(num_checkpoints=2)
    text = pinned(states, TOKENS[:9])
    assert text.slot is None
    for start in (100, 200, 300):
        states.release(answered(states, [start + token for token in range(9)], [1]))
    states.forget()
    states.keep(text, text.num_computed)  # as each use of a session does
    follower = states.begin(TOKENS[:12])
    assert follower.slot is not None
    assert (follower.state_position, states.seen[follower.slot]) == (8, TOKENS[:8])
    states.release(follower)
    states.release(text)
    for start in (100, 200):
        states.release(answered(states, [start + token for token in range(9)], [1]))
    assert states.begin(TOKENS[:12]).state_position == 0


def test_a_pinned_state_is_that_of_a_block_in_its_blocks_place():
    states = States()
    text = pinned(states, TOKENS[:9])
    states.forget()
    states.release(answered(states, TOKENS[:9], [1]))  # the same blocks are cached again
    states.keep(text, text.num_computed)
    states.check_integrity([text])
    assert states.begin(TOKENS[:12]).state_position == 8


class Texts(RuleBasedStateMachine):
    """Texts begin, compute, are preempted, pinned and end in any order."""

    @initialize(num_blocks=st.integers(12, 40), num_checkpoints=st.integers(1, 4), num_pages=st.integers(0, 40))
    def create(self, num_blocks: int, num_checkpoints: int, num_pages: int) -> None:
        self.states = States(num_blocks, num_checkpoints, num_pages)
        self.texts: list[CachedTokens] = []
        self.pinned: list[CachedTokens] = []

    @precondition(lambda self: len(self.texts) < NUM_SLOTS)
    @rule(prefix=st.integers(0, 9), length=st.integers(1, 12), start=st.integers(0, 2))
    def begin(self, prefix: int, length: int, start: int) -> None:
        tokens = [*TOKENS[:prefix], *range(100 * start, 100 * start + length)]
        text = CachedTokens(tokens, cache_scope="")
        self.states.reuse(text)
        if self.states.can_grow(text, len(tokens) + 1):
            self.states.grow(text, len(tokens))
            self.texts.append(text)
        else:
            self.states.release(text)

    @precondition(lambda self: self.texts)
    @rule(data=st.data(), next_ids=st.lists(st.integers(0, 2), min_size=1, max_size=3))
    def compute(self, data: st.DataObject, next_ids: list[int]) -> None:
        text = data.draw(st.sampled_from(self.texts))
        num_certain = data.draw(st.integers(1, text.num_pending))
        drawn = next_ids if num_certain == text.num_pending else []
        if self.states.can_grow(text, len(text.tokens) + len(drawn)):
            self.states.compute(text, num_certain, drawn)
        else:
            self._drop(text)

    @precondition(lambda self: self.texts)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self._drop(data.draw(st.sampled_from(self.texts)))

    @precondition(lambda self: len(self.texts) < NUM_SLOTS)
    @rule(num_blocks=st.integers(1, 2), start=st.integers(0, 2))
    def pin(self, num_blocks: int, start: int) -> None:
        if self.states.num_free >= num_blocks + 1:
            tokens = [*range(100 * start, 100 * start + num_blocks * BLOCK_SIZE + 1)]
            self.pinned.append(pinned(self.states, tokens))

    @precondition(lambda self: self.pinned)
    @rule(data=st.data(), goes=st.booleans())
    def hold_or_let_go(self, data: st.DataObject, *, goes: bool) -> None:
        text = data.draw(st.sampled_from(self.pinned))
        if goes:
            self.states.release(text)
            self.pinned.remove(text)
        else:
            self.states.keep(text, text.num_computed)

    @rule()
    def forget(self) -> None:
        self.states.forget()

    def _drop(self, text: CachedTokens) -> None:
        self.states.release(text)
        self.texts.remove(text)

    @invariant()
    def states_are_those_of_their_texts(self) -> None:
        self.states.check_integrity([*self.texts, *self.pinned])
        for text in self.texts:
            assert text.slot is not None
            assert self.states.seen.get(text.slot, [])[: text.state_position] == text.tokens[: text.state_position]


Texts.TestCase.settings = settings(stateful_step_count=30)
test_texts: Callable[..., None] = Texts.TestCase
