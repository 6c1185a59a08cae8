"""How much of the target's greedy text goes round in circles, behind prompts from files that it has not seen."""

import torch
from demo_acceptance import prompts_of
from demo_model import Llama, generate
from tokenizers import Tokenizer

NEW_TOKENS = 120
LAST_TOKENS = 24  # two or three lines


def loops(answer: list[int]) -> bool:
    """Whether the end of a text stood in it before."""
    last = answer[-LAST_TOKENS:]
    return any(answer[start : start + LAST_TOKENS] == last for start in range(len(answer) - LAST_TOKENS))


def measure_loops(target: Llama, tokenizer: Tokenizer, files: dict[str, str]) -> dict[str, object]:
    """Which files have a second prompt behind which the text loops, ready for JSON."""
    names = sorted(files)
    prompts = torch.stack([prompts_of(tokenizer, files[name])[1] for name in names])
    answers = generate(target, prompts, NEW_TOKENS).tolist()
    found = [name for name, answer in zip(names, answers, strict=True) if loops(answer)]
    return {"prompts": len(names), "looping": len(found), "files": found}
