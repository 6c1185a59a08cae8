"""Healing: the last token of a prompt, to be drawn anew among those that begin as it does."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """How a prompt's end is healed: text cut off at a place where the tokenizer would not have cut it goes on as if
    it had not been.
    """

    num_known: int  # bytes of the token that is taken back, with which the healed one begins
    masked_ids: tuple[int, ...]  # the tokens that begin otherwise, special ones included


def plan_healing(prompt: Seq[int], tokenizer: Tokenizer, *, vocab_size: int) -> Healing | None:
    """Return how to heal a prompt that is not empty; None where there is nothing to choose.

    That is so for a single token, which leaves nothing to draw after, for a special one, which is no text, and where
    no other token begins with the last one's bytes.
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
