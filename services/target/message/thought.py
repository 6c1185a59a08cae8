"""Thoughts of a prompt: whether its template has begun, or ended, what the model thinks before it answers."""

from collections.abc import Sequence as Seq
from enum import Enum, auto

from services.engine.text.tokenizer import Tokenizer
from services.target.message.syntax import MessageSyntax

_MOST_TOKENS = 4096


class PromptThought(Enum):
    """How far the thought is when the answer begins."""

    NONE = auto()  # the model may begin one
    OPEN = auto()
    CLOSED = auto()


def thought_of(prompt: Seq[int], tokenizer: Tokenizer, syntax: MessageSyntax) -> PromptThought:
    """The thought behind the last control token of a prompt, where that ends the messages before."""
    if syntax.reasoning is None:
        return PromptThought.CLOSED
    marks = frozenset(syntax.mark_ids.values())
    pieces: list[bytes] = []
    for token_id in reversed(prompt[-_MOST_TOKENS:]):
        if tokenizer.is_special(token_id) and token_id not in marks:
            break
        pieces.append(tokenizer.token_bytes(token_id))
    text = b"".join(reversed(pieces)).decode(errors="replace")
    start, end = text.rfind(syntax.reasoning.start), text.rfind(syntax.reasoning.end)
    if start == end:
        return PromptThought.NONE
    return PromptThought.OPEN if start > end else PromptThought.CLOSED
