"""Arriving: an answer in a peer's process while its tokens arrive. Like `questions` it imports no module of ours."""

import time


class Arriving:
    """One answer, to a question that is asked when this is made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._token_ids: list[int] = []
        self._arrivals: list[tuple[float, int]] = []

    def __len__(self) -> int:
        """Return the number of tokens that have arrived."""
        return len(self._token_ids)

    def add(self, token_ids: list[int]) -> None:
        """Record tokens that have arrived now, together."""
        if token_ids:
            self._token_ids += token_ids
            self._arrivals.append((time.perf_counter(), len(token_ids)))

    def reply(self, num_tokens: int) -> dict[str, object]:
        """Return the fields of an Answer with at most `num_tokens` tokens."""
        first, num_first = self._arrivals[0]
        last, _ = self._arrivals[-1]
        return {
            "token_ids": self._token_ids[:num_tokens],
            "first_token": first - self._began,
            "num_first": num_first,
            "decode": last - first,
            "arrivals": self._arrivals,
        }
