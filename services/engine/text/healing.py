"""Healing (token healing): resamples the last token of a prompt among the tokens that begin with its text."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """How to heal a prompt's end, so that a text that ends in the middle of a usual token continues naturally."""

    num_known: int  # bytes of the removed token, with which the new one begins
    masked_ids: tuple[int, ...]  # the tokens that begin otherwise, including special tokens


def plan_healing(prompt: Seq[int], tokenizer: Tokenizer, *, vocab_size: int) -> Healing | None:
    """Return how to heal a prompt that is not empty; None if it needs no healing.

    That is so if the prompt is a single token, which leaves nothing before it, if the last token is special, and if no
    other token begins with its bytes.
    """
    *before, last = prompt
    known = tokenizer.token_bytes(last)
    if not before or not known or tokenizer.is_special(last):
        return None
    allowed = frozenset(tokenizer.ids_beginning_with(known))
    if len(allowed) == 1:
        return None
    masked_ids = tuple(token_id for token_id in range(vocab_size) if token_id not in allowed)
    return Healing(num_known=len(known), masked_ids=masked_ids)
