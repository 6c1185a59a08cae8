"""Arriving: an answer of a peer's own process while its tokens come; like `questions` it needs nothing else of ours."""

import time


class Arriving:
    """One answer to a question that is asked now."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._token_ids: list[int] = []
        self._arrivals: list[tuple[float, int]] = []

    def __len__(self) -> int:
        """The number of tokens that have come."""
        return len(self._token_ids)

    def add(self, token_ids: list[int]) -> None:
        """These have come now, all at once."""
        if token_ids:
            self._token_ids += token_ids
            self._arrivals.append((time.perf_counter(), len(token_ids)))

    def reply(self, num_tokens: int) -> dict[str, object]:
        """The fields of an Answer, of which no more than so many tokens count."""
        first, num_first = self._arrivals[0]
        last, _ = self._arrivals[-1]
        return {
            "token_ids": self._token_ids[:num_tokens],
            "first_token": first - self._began,
            "num_first": num_first,
            "decode": last - first,
            "arrivals": self._arrivals,
        }
