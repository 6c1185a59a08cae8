"""Drafter: whatever the targets send, no step exceeds its rows, nothing is lost, and all blocks are freed."""

import asyncio
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from services.draft.link import DraftLink
from tests.unit.toy_draft import CONTEXT_LENGTH, Draft, new_sequence, toy_tokens


class Targets:
    """Some targets that send any valid messages, in random order."""

    def __init__(self, draft: Draft, random: Random, *, num_links: int, quota: int) -> None:
        self._draft, self._random = draft, random
        self._links = [
            draft.join(max_sequences=quota, max_cached_tokens=quota * CONTEXT_LENGTH) for _ in range(num_links)
        ]
        self._committed: dict[tuple[DraftLink, int], list[int]] = {}
        self._next_id = 1

    def act(self) -> None:
        """One message, of one of them."""
        choices = (
            [self._open] if not self._committed else [self._open, self._grant, self._grant, self._commit, self._close]
        )
        self._random.choice(choices)()

    def leave(self) -> None:
        for link in self._links:
            self._draft.drafter.leave(link)

    def check(self) -> None:
        owners = [
            owner.text
            for link in self._links
            for each in link.sequences.values()
            for owner in (each, *self._draft.alternates(each))
        ]
        self._draft.blocks.check_integrity(owners)

    def _open(self) -> None:
        link = self._random.choice(self._links)
        prompt = [*self._random.randbytes(self._random.randint(1, 30))]
        self._draft.drafter.open(link, self._next_id, new_sequence(num_prompt=len(prompt)))
        self._draft.drafter.commit(link, self._next_id, 0, prompt)
        self._committed[link, self._next_id] = prompt
        self._next_id += 1

    def _grant(self) -> None:
        link, sequence_id = self._random.choice([*self._committed])
        self._draft.drafter.window(link, sequence_id, self._random.randint(0, 40), self._random.choice([0, 2, 1000]))

    def _commit(self) -> None:
        """What the draft predicts, up to a token that may be another one."""
        (link, sequence_id), tokens = self._random.choice([*self._committed.items()])
        new = toy_tokens(tokens, self._random.randint(1, 6))
        new[-1] = self._random.choice([new[-1], (new[-1] + 1) % 256])
        self._draft.drafter.commit(link, sequence_id, len(tokens), new, wanted=self._random.choice([0, 3, 1000]))
        tokens.extend(new)

    def _close(self) -> None:
        link, sequence_id = key = self._random.choice([*self._committed])
        self._draft.drafter.close(link, sequence_id)
        del self._committed[key]


@settings(max_examples=25, derandomize=True, database=None)
@given(
    max_rows=st.integers(1, 24),
    prefill_chunk=st.integers(1, 30),
    max_run=st.integers(1, 6),
    num_blocks=st.integers(2, 60),
    num_links=st.integers(1, 3),
    quota=st.integers(1, 12),
    seed=st.integers(0, 2**32),
)
def test_no_step_exceeds_its_rows(max_rows, prefill_chunk, max_run, num_blocks, num_links, quota, seed):
    async def drive() -> None:
        random = Random(seed)
        draft = Draft(num_blocks=num_blocks, max_rows=max_rows, prefill_chunk=prefill_chunk, max_run=max_run)
        targets = Targets(draft, random, num_links=num_links, quota=quota)
        for _ in range(60):
            targets.act()
            if random.random() < 0.7:
                draft.drafter.step()
            targets.check()
        for _ in range(2000):
            if not draft.drafter.step():
                break
        else:
            raise AssertionError("no end in sight")
        for batch in draft.runner.asked:
            assert all(scheduled.num_tokens >= 1 for scheduled in batch)
            assert sum(scheduled.num_tokens for scheduled in batch) <= max_rows
        targets.leave()
        assert draft.blocks.num_free == num_blocks

    asyncio.run(drive())
