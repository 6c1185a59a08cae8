"""Random rows of logits of every shape: flat, usual, peaked, with ties, with gaps, of small and large vocabularies."""

from collections.abc import Callable, Iterator

import numpy as np

from tests.native.harness.sampling_reference import Floats

_SIZES = {64: 0.5, 300: 0.4, 1200: 0.096, 32_768: 0.004}  # shares of the rows
_Draw = Callable[[np.random.Generator, int], np.ndarray]


def _one_leads(rng: np.random.Generator, vocab: int) -> np.ndarray:
    row = rng.standard_normal(vocab)
    row[rng.integers(vocab)] += 12
    return row


def _with_gaps(rng: np.random.Generator, vocab: int) -> np.ndarray:
    return np.where(rng.random(vocab) < 0.3, -np.inf, 3 * rng.standard_normal(vocab))


_SHAPES: tuple[_Draw, ...] = (
    lambda rng, vocab: 3 * rng.standard_normal(vocab),
    lambda rng, vocab: 0.05 * rng.standard_normal(vocab),
    lambda rng, vocab: 9 * rng.standard_normal(vocab),
    lambda rng, vocab: np.round(2 * rng.standard_normal(vocab)),
    lambda rng, vocab: -1.2 * np.log(1 + rng.permutation(vocab)),
    _one_leads,
    _with_gaps,
)


def random_rows(count: int) -> Iterator[Floats]:
    """About so many rows, in groups of one vocabulary.  # [rows, vocab] each"""
    rng = np.random.default_rng(20)
    for vocab, share in _SIZES.items():
        rows = [_SHAPES[row % len(_SHAPES)](rng, vocab) for row in range(round(count * share))]
        if rows:
            yield np.array(rows, np.float32)


def random_history(rng: np.random.Generator, vocab: int) -> list[int]:
    """Tokens that repeat."""
    few = rng.choice(vocab, size=int(rng.integers(2, 6)), replace=False)
    return [int(each) for each in rng.choice(few, size=int(rng.integers(8, 60)))]
