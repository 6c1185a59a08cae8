"""How much of the target's greedy text repeats itself, after the beginnings of held-out documents."""

from collections.abc import Mapping

from demo_acceptance import NEW_TOKENS, prompts_of, whole
from demo_corpus import END_OF_TEXT
from demo_model import Llama, generate
from tokenizers import Tokenizer

LAST_TOKENS = 24  # two or three lines


def loops(answer: list[int]) -> bool:
    """Whether the end of a text stood in it before."""
    last = answer[-LAST_TOKENS:]
    return any(answer[start : start + LAST_TOKENS] == last for start in range(len(answer) - LAST_TOKENS))


def measure_loops(target: Llama, tokenizer: Tokenizer, documents: Mapping[int, str]) -> dict[str, object]:
    """How many texts loop, how many came to their end, and how long all are, ready for JSON.

    A text is what a service would give: up to the token that ends it, if the target says one.
    """
    prompts, end = prompts_of(tokenizer, documents), tokenizer.token_to_id(END_OF_TEXT)
    answers = [whole(answer, end) for answer in generate(target, prompts, NEW_TOKENS).tolist()]
    return {
        "prompts": len(answers),
        "looping": sum(map(loops, answers)),
        "ended": sum(answer[-1] == end for answer in answers),
        "mean_tokens": sum(map(len, answers)) / len(answers),
    }
