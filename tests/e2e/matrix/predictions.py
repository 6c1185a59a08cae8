"""ScriptedPredictor: predictions that are right, wrong or a mixture, since the answer is known beforehand."""

import itertools
import math
import random
from collections.abc import Callable
from collections.abc import Sequence as Seq

from services.target.sequence.sequence import Sequence
from tests.harness.servers.silent_predictor import SilentPredictor

Scripts = tuple[Seq[int], ...]
_SHARE_RIGHT = 0.7


class ScriptedPredictor(SilentPredictor):
    """Predicts from the generated tokens that `script_of` knows for a request id, and so only while they come true.

    Of several scripts it follows the first that the answer has followed so far: one that will be banned leads it on.
    What is to be wrong is wrong by all of them.

    It has no state of its own: a sequence that is preempted, or taken up again after a crash, gets the same
    predictions.
    """

    def __init__(self, script_of: Callable[[str], tuple[str, *Scripts] | None], *, vocab_size: int) -> None:
        """`script_of` gives the kind of predictions and the right tokens, or None where nothing is predicted."""
        self._script_of = script_of
        self._vocab_size = vocab_size

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        """What follows in the script, right or not according to its kind."""
        script = self._script_of(sequence.request.request_id)
        if script is None:
            return []
        kind, *scripts = script
        first = sequence.num_generated
        generated = sequence.tokens[sequence.num_prompt :]
        tokens = next((tokens for tokens in scripts if [*tokens[:first]] == generated), scripts[-1])
        name = sequence.request.request_id
        return [
            tokens[position] if _is_right(kind, name, position) else self._wrong(tokens, scripts, position)
            for position in range(first, min(first + limit, len(tokens)))
        ]

    def _wrong(self, tokens: Seq[int], scripts: Seq[Seq[int]], position: int) -> int:
        said = {script[position] for script in scripts if position < len(script)}
        others = ((tokens[position] + offset) % self._vocab_size for offset in itertools.count(1))
        return next(token_id for token_id in others if token_id not in said)


def _is_right(kind: str, name: str, position: int) -> bool:
    if kind == "mixed":
        return random.Random(f"{name} {position}").random() < _SHARE_RIGHT
    return kind == "right"
