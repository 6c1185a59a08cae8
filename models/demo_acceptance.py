"""How often the draft predicts the target's tokens, after the beginnings of documents that neither has seen."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import torch
from demo_corpus import END_OF_TEXT
from demo_model import Llama, generate
from demo_training import gumbel_noise
from tokenizers import Tokenizer
from torch import Tensor

PROMPT_TOKENS = 16  # about the first line of a function
NEW_TOKENS = 120
DRAFT_LENGTHS = (3, 5, 8)
PROMPTS_AT_ONCE = 32


@dataclass(frozen=True)
class Pair:
    """Two models and their one tokenizer."""

    target: Llama
    draft: Llama
    tokenizer: Tokenizer


@dataclass(frozen=True)
class Acceptance:
    """The share of agreed tokens, and the tokens that one pass of the target yields for each draft length."""

    rate: float
    tokens_per_pass: dict[int, float]


def prompts_of(tokenizer: Tokenizer, documents: Mapping[int, str]) -> Tensor:
    """How each document begins that is long enough, [prompts, tokens]."""
    ids = [encoding.ids for encoding in tokenizer.encode_batch(list(documents.values()))]
    return torch.tensor([one[:PROMPT_TOKENS] for one in ids if len(one) > PROMPT_TOKENS])


def whole(answer: list[int], end: int) -> list[int]:
    """An answer up to the token that ends it, if there is one."""
    return answer[: answer.index(end) + 1] if end in answer else answer


@torch.no_grad()
def agreement(pair: Pair, prompts: Tensor, temperature: float, seed: int) -> list[list[bool]]:
    """For each prompt, whether the draft, given the target's text so far, picks the target's next token.

    Above temperature 0 both add the same Gumbel noise to their logits, as the services do.
    """
    noise = None
    if temperature > 0:
        generator = torch.Generator().manual_seed(seed)
        noise = gumbel_noise(len(prompts), NEW_TOKENS, pair.target.shape.vocab, temperature, generator)
    chosen = generate(pair.target, prompts, NEW_TOKENS, noise)
    logits = pair.draft.logits(torch.cat([prompts, chosen[:, :-1]], dim=1))[:, PROMPT_TOKENS - 1 :]
    if noise is not None:
        logits += torch.stack(noise, dim=1)
    agreed = (logits.argmax(dim=-1) == chosen).tolist()
    end = pair.tokenizer.token_to_id(END_OF_TEXT)
    return [row[: len(whole(answer, end))] for row, answer in zip(agreed, chosen.tolist(), strict=True)]


def passes_needed(agreed: list[bool], draft_length: int) -> int:
    """Replay speculative decoding: each pass yields the agreed run of the draft and one token of the target."""
    position = passes = 0
    while position < len(agreed):
        run = agreed[position : position + draft_length]
        position += 1 + (run.index(False) if False in run else len(run))
        passes += 1
    return passes


def summarise(agreed: list[list[bool]]) -> Acceptance:
    """The figures of agreements, one list for each prompt."""
    total = sum(map(len, agreed))
    passes = {length: sum(passes_needed(row, length) for row in agreed) for length in DRAFT_LENGTHS}
    return Acceptance(sum(map(sum, agreed)) / total, {length: total / n for length, n in passes.items()})


def measure(pair: Pair, documents: Mapping[int, str], temperature: float, seed: int) -> dict[str, object]:
    """Measure the acceptance rate after the beginnings of the documents, ready for JSON."""
    prompts = prompts_of(pair.tokenizer, documents)
    agreed = [
        row
        for index, part in enumerate(prompts.split(PROMPTS_AT_ONCE))
        for row in agreement(pair, part, temperature, seed + index)
    ]
    return {"temperature": temperature, "prompts": len(prompts)} | asdict(summarise(agreed))
