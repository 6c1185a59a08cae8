"""The tokens of reasoning are counted up to its end, wherever the answer is cut."""

import pytest

from services.target.message.reasoning_counter import ReasoningCounter
from services.target.message.syntax import REASONING_SYNTAXES
from services.target.message.thought import PromptThought
from tests.unit.sequences import byte_tokenizer

NONE, OPEN, CLOSED = PromptThought
THINK = REASONING_SYNTAXES["think"]


def counts(text: str, thought: PromptThought) -> list[int]:
    """The count after each byte, which is a token."""
    counter = ReasoningCounter(byte_tokenizer(), THINK, thought)
    seen = [counter.count]
    for token_id in text.encode():
        counter.push([token_id])
        seen.append(counter.count)
    return seen


@pytest.mark.parametrize(
    ("thought", "text", "expected"),
    [
        (NONE, "<think>Hm.</think>Yes", len("<think>Hm.</think>")),
        (NONE, "\n <think></think>Yes", len("\n <think></think>")),
        (NONE, "Yes <think>no</think>", 0),
        (NONE, "<thin", 0),
        (NONE, "<think>Hm", len("<think>Hm")),
        (NONE, "", 0),
        (OPEN, "Hm </thin</think>Yes", len("Hm </thin</think>")),
        (OPEN, "Hm", 2),
        (OPEN, "</think>", len("</think>")),
        (CLOSED, "<think>Hm.</think>", 0),
    ],
)
def test_reasoning_up_to_its_end(thought: PromptThought, text: str, expected: int):
    seen = counts(text, thought)
    assert seen[-1] == expected
    assert all(count <= number for number, count in enumerate(seen))
    whole = ReasoningCounter(byte_tokenizer(), THINK, thought)
    whole.push(text.encode())
    assert whole.count == expected


def test_a_model_without_reasoning():
    counter = ReasoningCounter(byte_tokenizer(), None, OPEN)
    counter.push(b"<think>a")
    assert counter.count == 0
