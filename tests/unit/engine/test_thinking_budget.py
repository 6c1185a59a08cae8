"""A thought is bounded by its tokens alone, however its marks are cut into tokens."""

import itertools
import random
from collections.abc import Sequence as Seq

import numpy as np
import pytest

from services.engine.text.tokenizer import Tokenizer
from services.engine.thinking_budget import ThinkingBudget, Thought
from tests.harness.models.checkpoints import VOCAB_SIZE, Kind, random_checkpoint

START, END = b"<t>", b"</t>"
TOKENIZER = Tokenizer.from_folder(random_checkpoint(Kind.LLAMA))
WORDS = (VOCAB_SIZE + 31) // 32


def ids_of(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


def budget_of(max_tokens: int, *, is_begun: bool) -> ThinkingBudget:
    return ThinkingBudget(
        max_tokens=max_tokens,
        is_begun=is_begun,
        start=START,
        end=END,
        end_ids=tuple(ids_of(END.decode())),
        tokenizer=TOKENIZER,
        vocab_size=VOCAB_SIZE,
    )


def after(budget: ThinkingBudget, token_ids: Seq[int]) -> Thought:
    return list(itertools.accumulate(token_ids, Thought.after, initial=budget.begin()))[-1]


def forced_by_definition(budget: ThinkingBudget, token_ids: Seq[int]) -> int | None:
    """The token that must follow, from the answer's whole text."""

    def text_of(count: int) -> bytes:
        return b"".join(map(TOKENIZER.token_bytes, token_ids[:count])).lstrip()

    first, thought = 0, b"".join(map(TOKENIZER.token_bytes, token_ids))
    if not budget.is_begun:
        counts = range(len(token_ids) + 1)
        first = next((count for count in counts if text_of(count).startswith(START)), -1)
        if first < 0:
            return None
        thought = text_of(len(token_ids)).removeprefix(START)
    num_beyond = len(token_ids) - first - budget.max_tokens
    is_forced = END not in thought and 0 <= num_beyond < len(budget.end_ids)
    return budget.end_ids[num_beyond] if is_forced else None


@pytest.mark.parametrize("is_begun", [True, False])
def test_forced_tokens_are_those_of_the_definition(is_begun: bool) -> None:
    rng, num_forced = random.Random(3), 0
    pieces = [*"<t>/ ab\n", "<t>", "</t>", "<t", "</", "longer words"]
    for _ in range(400):
        ids = [id for piece in rng.choices(pieces, k=rng.randrange(9)) for id in ids_of(piece)]
        ids = ids if is_begun else [*ids_of(rng.choice(["", " ", "\n <t>", "<t>x", "<"])), *ids]
        budget = budget_of(rng.randrange(7), is_begun=is_begun)
        for count in range(len(ids) + 1):
            forced = forced_by_definition(budget, ids[:count])
            num_forced += forced is not None
            assert after(budget, ids[:count]).forced_id == forced
    assert num_forced > 100


def test_an_answer_that_follows_forced_tokens_ends_thinking_once() -> None:
    budget = budget_of(3, is_begun=True)
    thought, written = budget.begin(), []
    for _ in range(20):
        written.append(ids_of("a")[0] if thought.forced_id is None else thought.forced_id)
        thought = thought.after(written[-1])
    a = ids_of("a")
    assert written == [*a * 3, *budget.end_ids, *a * (17 - len(budget.end_ids))]


def test_masks_leave_the_forced_token_after_each_prediction() -> None:
    budget = budget_of(1, is_begun=True)
    first, second, *_ = budget.end_ids
    (a,) = ids_of("a")
    masks = budget.begin().restrict(None, [a, first, a])
    assert masks is not None
    assert masks.shape == (4, WORDS)
    assert (masks[0] == 0xFFFFFFFF).all()
    for row, token_id in ((1, first), (2, second)):
        assert np.flatnonzero(np.unpackbits(masks[row].view(np.uint8), bitorder="little")).tolist() == [token_id]
    forbidding = np.full((2, WORDS), 0xFFFFFFFF, dtype=np.uint32)
    forbidding[1, first // 32] &= ~np.uint32(1 << first % 32)
    kept = forbidding.copy()
    restricted = budget.begin().restrict(forbidding, [a])
    assert restricted is not None
    assert not restricted[1].any()
    assert np.array_equal(forbidding, kept)


def test_without_forced_tokens_there_are_no_masks() -> None:
    assert budget_of(9, is_begun=True).begin().restrict(None, ids_of("abc")) is None
    assert after(budget_of(0, is_begun=False), ids_of("no thought")).restrict(None, ids_of("<t>abc")) is None
