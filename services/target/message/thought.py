"""Thoughts of a prompt: whether its chat template has begun, or ended, the model's reasoning."""

from collections.abc import Sequence as Seq
from enum import Enum, auto

from services.engine.grammar.reasoning import ReasoningMarks
from services.engine.text.tokenizer import Tokenizer
from services.target.message.syntax import MessageSyntax

_MOST_TOKENS = 4096


class PromptThought(Enum):
    """The state of the reasoning when the answer begins."""

    NONE = auto()  # the model may begin it
    OPEN = auto()
    CLOSED = auto()


def thought_of(prompt: Seq[int], tokenizer: Tokenizer, syntax: MessageSyntax) -> PromptThought:
    """The state of the reasoning after the last control token of a prompt, which ends the previous messages."""
    if syntax.reasoning is None:
        return PromptThought.CLOSED
    marks = frozenset(syntax.mark_ids.get(mark) for mark in syntax.reasoning.marks)
    pieces: list[bytes] = []
    for token_id in reversed(prompt[-_MOST_TOKENS:]):
        if tokenizer.is_special(token_id) and token_id not in marks:
            break
        pieces.append(tokenizer.token_bytes(token_id))
    text = b"".join(reversed(pieces)).decode(errors="replace")
    if syntax.reasoning.answer and syntax.reasoning.answer in text:
        return PromptThought.CLOSED
    text = text.rpartition(syntax.reasoning.again)[2] if syntax.reasoning.again else text
    start, end = text.rfind(syntax.reasoning.start), text.rfind(syntax.reasoning.end)
    if start == end:
        return PromptThought.NONE
    return PromptThought.OPEN if start > end else PromptThought.CLOSED


def marks_before_answer(
    syntax: MessageSyntax, thought: PromptThought, *, is_call: bool = False
) -> ReasoningMarks | None:
    """The marks of the reasoning that may come before the answer; None if there is none."""
    marks = syntax.reasoning
    if marks is None or thought is PromptThought.CLOSED:
        return None
    is_begun = thought is PromptThought.OPEN
    return ReasoningMarks(marks.start, marks.end + marks.after, is_begun, "" if is_call else marks.answer)
