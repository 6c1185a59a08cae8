"""Guidance: classifier-free guidance away from a negative prompt."""

from dataclasses import dataclass

from services.engine.decoder.native import BLOCK_SIZE


def shared_context(context_length: int) -> int:
    """Return the most tokens that the two texts of a guided answer may have together.

    It is one KV block less than the context: each text may leave a part of its last block empty.
    """
    return context_length - BLOCK_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """Tokens are sampled from scale * (log p - log q) + log q, where q are the probabilities of the same answer after a
    negative prompt (Sanchez et al., arXiv 2306.17806, equation 7). A scale of 1 would change nothing.
    """

    scale: float
    negative_prompt: tuple[int, ...]

    def room(self, num_prompt: int, context_length: int) -> int:
        """Return the most tokens of an answer; each token is in both texts."""
        return max(0, shared_context(context_length) - num_prompt - len(self.negative_prompt)) // 2
