"""ExpectedTokens: the next tokens of an answer that its request expects, for as long as they were right."""

from collections.abc import Sequence as Seq

from services.engine.request import SpeculationMode, SpeculationPolicy

_BEYOND = 16  # tokens after those that were right, where a wrong one must not cost much


class ExpectedTokens:
    """Compares an answer with what was expected, each token once."""

    def __init__(self, policy: SpeculationPolicy) -> None:
        self._expected = policy.expected
        self._is_automatic = policy.mode is SpeculationMode.AUTO
        self._num_right = 0
        self._is_wrong = False  # the token after those

    def after(self, answer: Seq[int], num_before: int, most: int) -> Seq[int]:
        """Return at most so many tokens; with AUTO, as many as were right so far and some more. `answer` begins after
        `num_before` other tokens, and may have been cut back since the last call.
        """
        length = len(answer) - num_before
        if length <= self._num_right:
            self._num_right, self._is_wrong = length, False
        while not self._is_wrong and self._num_right < min(length, len(self._expected)):
            if self._expected[self._num_right] == answer[num_before + self._num_right]:
                self._num_right += 1
            else:
                self._is_wrong = True
        if self._is_wrong or self._num_right < length:
            return ()
        return self._expected[length : length + min(most, length + _BEYOND if self._is_automatic else most)]
