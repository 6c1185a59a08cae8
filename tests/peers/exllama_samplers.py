"""exllamav2's CPU samplers, each applied to one row."""

import ctypes

import numpy as np

from tests.native.harness.sampling_reference import Doubles, Floats, Settings
from tests.peers.sources import EXLLAMA, library_of

_NUMBERS = {
    "top_k": "top_k",
    "top_p": "top_p",
    "top_a": "top_a",
    "min_p": "min_p",
    "tail_free": "tfs_z",
    "typical": "typical_p",
    "mirostat_2": "mirostat_tau",
}
_ALIGNED = 32  # bytes, and numbers at once


class _Candidates:
    """A row's probabilities and ids, where the library finds them; one more than the row, as it writes beyond it."""

    def __init__(self, vocab: int) -> None:
        room = np.zeros(vocab + 3 * _ALIGNED, np.float32)
        first = -room.ctypes.data % _ALIGNED // room.itemsize
        self.probs = room[first:]
        self.ids = np.arange(vocab + 1, dtype=np.int32)

    @property
    def pointers(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        return ctypes.c_void_p(self.probs.ctypes.data), ctypes.c_void_p(self.ids.ctypes.data)


class ExllamaSamplers:
    """Raises MissingPeerError where they are not compiled."""

    def __init__(self) -> None:
        self._library = library_of(EXLLAMA)

    def shares(self, name: str, logits: Floats, asked: Settings, history: list[int]) -> Doubles:
        """What it makes of a row after some tokens: probabilities, 0 for tokens that are cut.  # [vocab]"""
        vocab, values = len(logits), np.ascontiguousarray(logits).copy()
        if name == "penalties":
            self._penalise(values, asked, history)
        row = _Candidates(vocab)
        smoothing = asked.smoothing_factor
        self._library.peer_softmax(
            vocab, ctypes.c_float(1 / smoothing if smoothing else 1.0), ctypes.c_void_p(values.ctypes.data),
            ctypes.c_float(2.0 if smoothing else 1.0), row.pointers[0],
        )  # fmt: skip
        row.probs[vocab:] = 0
        count = self._applied(name, row, vocab, asked)
        spread = np.zeros(vocab + 1)
        spread[row.ids[:count]] = row.probs[:count]
        result = spread[:vocab]
        # Its exponential is never 0: what was masked keeps 1e-38.
        result[~np.isfinite(logits)] = 0
        return result / result.sum()

    def drawn(self, logits: Floats, skew: float, chance: float) -> int:
        """The token that a number in (0, 1) falls on."""
        row = _Candidates(len(logits))
        self._library.peer_softmax(
            len(logits), ctypes.c_float(1), ctypes.c_void_p(logits.ctypes.data), ctypes.c_float(1), row.pointers[0]
        )
        skewed = float(np.float32(chance) ** np.exp(np.float32(-skew)))
        self._library.peer_draw(len(logits), *row.pointers, ctypes.c_float(skewed * 0.9998))
        return int(row.ids[0])

    def _applied(self, name: str, row: _Candidates, count: int, asked: Settings) -> int:
        if name == "top_k" and asked.top_k >= count:
            return count
        if name in _NUMBERS:
            number = ctypes.c_float(getattr(asked, _NUMBERS[name]))
            return int(getattr(self._library, f"peer_{name.removesuffix('_2')}")(count, *row.pointers, number))
        if name == "xtc":
            mask = np.ones(count, np.bool_)
            threshold = ctypes.c_float(asked.xtc_threshold)
            return int(self._library.peer_xtc(count, *row.pointers, ctypes.c_void_p(mask.ctypes.data), threshold))
        if name == "temperature":
            middle, half = asked.temperature, asked.dynatemp_range
            numbers = [ctypes.c_float(each) for each in (middle - half, middle + half, asked.dynatemp_exponent)]
            return int(self._library.peer_temperature(count, *row.pointers, *numbers))
        return count

    def _penalise(self, values: Floats, asked: Settings, history: list[int]) -> None:
        tokens = np.array(history, np.uint64)
        self._library.peer_penalties(
            len(values), ctypes.c_void_p(tokens.ctypes.data), len(tokens), ctypes.c_float(asked.repetition_penalty),
            asked.penalty_last_n or -1, asked.penalty_decay, ctypes.c_float(asked.frequency_penalty),
            ctypes.c_float(asked.presence_penalty), ctypes.c_void_p(values.ctypes.data),
        )  # fmt: skip
