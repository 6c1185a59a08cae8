"""Translation: one target's sequence in the tokens of a draft."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native import SamplingState
from services.engine.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class OwnCommit:
    """What a commit of the target is to the draft: truncate its own tokens to `position`, then append these."""

    position: int
    token_ids: Seq[int]
    keeps_chain: bool = True  # what is predicted beyond may stand
    keeps_epoch: bool = True  # and goes on from what the target was told


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens of the target that it may be told of, from a position on."""

    position: int
    token_ids: Seq[int]
    is_revised: bool = False  # they take the place of all that it was told behind the committed tokens


class Translation(Protocol):
    """Knows where each of the target's committed tokens ends among the draft's own.

    A `chain` is the draft's own tokens behind the committed ones.
    """

    is_identity: bool
    """Whether the draft's tokens are the target's: else a grammar, which is one of the target's tokens, is left to the
    target, and there are no alternates.
    """

    target_size: int
    """Token ids of the target."""

    def own_ids(self, target_ids: Seq[int]) -> Seq[int]:
        """The draft's own ids of those of the target's tokens that it has."""

    def own_params(self, params: SamplingParams) -> SamplingParams:
        """The target's way of drawing, among the draft's own tokens."""

    def align(self, sampling: SamplingState, chain: Seq[int]) -> None:
        """Let what is drawn behind the chain have the noise that the target draws it with."""

    def draws_singly(self, chain: Seq[int]) -> bool:
        """Whether no more than one token can be drawn behind the chain at a time."""

    def commit(self, tokens: Seq[int], num_committed: int, position: int, token_ids: Seq[int]) -> OwnCommit:
        """Truncate to the target's `position` and append its tokens, where `tokens` are the draft's, predicted ones
        included. Raises ValueError for a gap.
        """

    def own_length(self, num_tokens: int) -> int | None:
        """How many of our own tokens the target's first ones are; None before they are committed."""

    def num_told(self, chain: Seq[int]) -> int:
        """Of how many of its tokens behind the committed ones the target knows, or will by the next run."""

    def run(self, chain: Seq[int], num_told: int, window: int) -> Run:
        """What the target was not told yet, of the chain's first tokens so many; it knows of no more than its window in
        all.
        """

    def mask(self, chain: Seq[int]) -> NDArray[np.uint32] | None:
        """What the next token may be, [1, words]; None for all."""


def check_no_gap(position: int, num_committed: int) -> None:
    """Raise ValueError where a commit at a position leaves a gap."""
    if position > num_committed:
        raise ValueError(f"a commit at {position} leaves a gap: {num_committed} tokens are committed")


def appended(committed: Seq[int], position: int, token_ids: Seq[int]) -> Seq[int] | None:
    """What a commit adds to the committed tokens; None where it takes some of them back.

    Raises ValueError for a gap.
    """
    check_no_gap(position, len(committed))
    num_known = len(committed) - position
    return token_ids[num_known:] if token_ids[:num_known] == committed[position:] else None
