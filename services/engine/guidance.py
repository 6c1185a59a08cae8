"""Guidance: what a text is drawn away from, and how strongly."""

from dataclasses import dataclass

from services.engine.decoder.native import BLOCK_SIZE


def shared_context(context_length: int) -> int:
    """The most tokens that the two texts of a guided answer have together: each may leave a part of its last block of
    the KV cache empty, where one text alone leaves one such part.
    """
    return context_length - BLOCK_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """Tokens are drawn from scale * (log p - log q) + log q, where q are the probabilities of the same answer behind a
    negative prompt (Sanchez et al., arXiv 2306.17806, equation 7); a scale of 1 would change nothing.
    """

    scale: float
    negative_prompt: tuple[int, ...]

    def room(self, num_prompt: int, context_length: int) -> int:
        """The most tokens of an answer, each of which is in both texts."""
        return max(0, shared_context(context_length) - num_prompt - len(self.negative_prompt)) // 2
