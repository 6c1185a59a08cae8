"""expected_tokens: the next tokens of a sequence that its request expects, for as long as they were right."""

from collections.abc import Sequence as Seq

from services.engine.request import SpeculationMode
from services.target.sequence.sequence import Sequence

_BEYOND = 16  # tokens after those that were right, where a wrong one must not cost much


def expected_tokens(sequence: Sequence, most: int) -> Seq[int]:
    """Return at most so many; with AUTO as many as were right so far and some more."""
    policy, num_right = sequence.request.speculation, sequence.num_generated
    if len(policy.expected) <= num_right or not _is_right(sequence, policy.expected[:num_right]):
        return ()
    if policy.mode is SpeculationMode.AUTO:
        most = min(most, num_right + _BEYOND)
    return policy.expected[num_right : num_right + max(0, min(most, sequence.num_remaining - 1))]


def _is_right(sequence: Sequence, expected: Seq[int]) -> bool:
    answer = sequence.tokens
    if expected and expected[-1] != answer[-1]:  # which most often tells
        return False
    return tuple(answer[len(answer) - len(expected) :]) == expected
