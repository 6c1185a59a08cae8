"""PromptPace: limits the prompt rows of a pass while other sequences decode."""

import math

_FEWEST_ROWS = 8  # so that prompts make progress, however slow their rows are
_WEIGHT = 0.2  # of a new measurement: about the last five count


class PromptPace:
    """Learns how long passes take with and without prompt rows, and gives prompts as many rows as make a pass
    `most_slowdown` times as long; no limit applies while more sequences wait for their first token than decode.
    """

    def __init__(self, most_slowdown: float) -> None:
        self._most_slowdown = most_slowdown
        self._plain: dict[int, float] = {}  # seconds of passes without prompts, by the magnitude of their rows
        self._per_row: float | None = None  # seconds that a row of a prompt adds

    def observe(self, num_decode_rows: int, num_prompt_rows: int, seconds: float) -> None:
        """Learn from a pass that took `seconds`."""
        if not num_prompt_rows:
            self._plain[_magnitude(num_decode_rows)] = _moved(self._plain.get(_magnitude(num_decode_rows)), seconds)
            return
        plain = self._plain_seconds(num_decode_rows) if num_decode_rows else 0.0
        if plain is not None:
            self._per_row = _moved(self._per_row, max(seconds - plain, 0.0) / num_prompt_rows)

    def most_rows(self, num_decoding: int, num_prompts: int) -> float:
        """The most rows of all prompts together in a pass beside so many decoding sequences; infinity without limit."""
        if num_decoding < max(num_prompts, 1) or not self._per_row:
            return math.inf
        plain = self._plain_seconds(num_decoding)
        if plain is None:
            return math.inf
        return max(_FEWEST_ROWS, (self._most_slowdown - 1) * plain / self._per_row)

    def _plain_seconds(self, num_rows: int) -> float | None:
        """Seconds of passes without prompts, of the nearest magnitude that was measured."""
        own = _magnitude(num_rows)
        nearest = min(self._plain, key=lambda each: abs(each - own), default=None)
        return None if nearest is None else self._plain[nearest]


def _magnitude(num_rows: int) -> int:
    return num_rows.bit_length()


def _moved(known: float | None, measured: float) -> float:
    return measured if known is None else known + _WEIGHT * (measured - known)
