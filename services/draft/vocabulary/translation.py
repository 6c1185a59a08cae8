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
    """A target's commit in the draft's own tokens: truncate these to `position`, then append `token_ids`."""

    position: int
    token_ids: Seq[int]
    keeps_chain: bool = True  # whether the predictions after it may remain
    keeps_epoch: bool = True  # and whether they continue the predictions that the target was sent


@dataclass(frozen=True, slots=True)
class Run:
    """Predictions to send, in the target's tokens, from a position on."""

    position: int
    token_ids: Seq[int]
    is_revised: bool = False  # whether they replace all predictions sent after the committed tokens


class Translation(Protocol):
    """Translates one sequence, and knows where each of the target's committed tokens ends among the draft's own.

    A `chain` is the draft's own tokens after the committed ones.
    """

    is_identity: bool
    """Whether both have the same tokens. If not, grammars, which are compiled for the target's tokens, are left to the
    target, and there are no alternates.
    """

    target_size: int
    """The number of the target's token ids."""

    def own_ids(self, target_ids: Seq[int]) -> Seq[int]:
        """The draft's own ids of the target's tokens, without those that the draft does not have."""

    def own_params(self, params: SamplingParams) -> SamplingParams:
        """The target's sampling parameters, in the draft's own ids."""

    def align(self, sampling: SamplingState, chain: Seq[int]) -> None:
        """Let the draws after the chain use the noise that the target will use for them."""

    def draws_singly(self, chain: Seq[int]) -> bool:
        """Whether no more than one token can be drawn after the chain at a time."""

    def commit(self, tokens: Seq[int], num_committed: int, position: int, token_ids: Seq[int]) -> OwnCommit:
        """Truncate to the target's `position` and append its tokens; `tokens` are the draft's, predictions included.

        Raises ValueError for a gap.
        """

    def own_length(self, num_tokens: int) -> int | None:
        """The number of our own tokens for the target's first `num_tokens`; None before these are committed."""

    def num_sent(self, chain: Seq[int]) -> int:
        """How many predictions after the committed tokens the target was sent, or will be with the next run."""

    def run(self, chain: Seq[int], num_sent: int, window: int) -> Run:
        """The predictions to send next, given that the chain's first `num_sent` tokens were sent.

        The target is never sent more than `window` tokens after the committed ones.
        """

    def mask(self, chain: Seq[int]) -> NDArray[np.uint32] | None:
        """The allowed next tokens, [1, words]; None for all."""


def check_no_gap(position: int, num_committed: int) -> None:
    """Raise ValueError if a commit at `position` leaves a gap."""
    if position > num_committed:
        raise ValueError(f"a commit at {position} leaves a gap: {num_committed} tokens are committed")


def appended(committed: Seq[int], position: int, token_ids: Seq[int]) -> Seq[int] | None:
    """The tokens that a commit adds to the committed ones; None if it takes some of those back.

    Raises ValueError for a gap.
    """
    check_no_gap(position, len(committed))
    num_known = len(committed) - position
    return token_ids[num_known:] if token_ids[:num_known] == committed[position:] else None
