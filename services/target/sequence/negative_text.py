"""NegativeText: the second text of a guided sequence: the same answer after a negative prompt."""

from services.engine.guidance import Guidance


class NegativeText:
    """Its answer grows with that of its sequence, and its blocks have the same cache scope."""

    def __init__(self, guidance: Guidance, *, cache_scope: str | None) -> None:
        self.cache_scope = cache_scope
        self.tokens = list(guidance.negative_prompt)
        self.num_prompt = len(self.tokens)
        self.num_shared = self.num_prompt - 1  # leading tokens that a first sample computes for all samples
        self.num_pinned = 0  # sessions never pin it
        self.num_computed = 0  # leading tokens whose keys and values are in the cache
        self.blocks: list[int] = []

    @property
    def num_pending(self) -> int:
        """Tokens that must be computed before the next one can be drawn: 1 while decoding."""
        return len(self.tokens) - self.num_computed

    @property
    def num_reusable(self) -> int:
        """Leading tokens that may be taken from the prefix cache."""
        return len(self.tokens) - 1
