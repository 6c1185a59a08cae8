"""How often the draft predicts what the target says, on prompts from files that neither has seen."""

from dataclasses import asdict, dataclass

import torch
from demo_model import Llama, generate
from demo_training import gumbel_noise
from tokenizers import Tokenizer
from torch import Tensor

PROMPT_TOKENS = 64
NEW_TOKENS = 128
PROMPTS_PER_FILE = 4
DRAFT_LENGTHS = (3, 5, 8)


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


def prompts_of(tokenizer: Tokenizer, text: str) -> Tensor:
    """Equally spaced prompts of one file, [prompts, tokens]."""
    ids = torch.tensor(tokenizer.encode(text).ids)
    stride = (len(ids) - PROMPT_TOKENS) // PROMPTS_PER_FILE
    return torch.stack([ids[i * stride : i * stride + PROMPT_TOKENS] for i in range(PROMPTS_PER_FILE)])


@torch.no_grad()
def agreement(pair: Pair, prompts: Tensor, temperature: float, seed: int) -> Tensor:
    """Whether the draft, given the target's text so far, picks the target's next token: [prompts, new tokens].

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
    return logits.argmax(dim=-1) == chosen


def passes_needed(agreed: list[bool], draft_length: int) -> int:
    """Replay speculative decoding: each pass yields the agreed run of the draft and one token of the target."""
    position = passes = 0
    while position < len(agreed):
        run = agreed[position : position + draft_length]
        position += 1 + (run.index(False) if False in run else len(run))
        passes += 1
    return passes


def summarise(agreed: Tensor) -> Acceptance:
    """The figures of agreements [prompts, new tokens]."""
    rows = agreed.tolist()
    passes = {length: sum(passes_needed(row, length) for row in rows) for length in DRAFT_LENGTHS}
    return Acceptance(agreed.float().mean().item(), {length: agreed.numel() / n for length, n in passes.items()})


def measure(pair: Pair, files: dict[str, str], temperature: float, seed: int) -> dict[str, object]:
    """Acceptance of every file and of all together, ready for JSON."""
    agreed = {
        name: agreement(pair, prompts_of(pair.tokenizer, text), temperature, seed + index)
        for index, (name, text) in enumerate(sorted(files.items()))
    }
    overall = summarise(torch.cat(list(agreed.values())))
    per_file = {name: asdict(summarise(rows)) for name, rows in agreed.items()}
    return {"temperature": temperature, "overall": asdict(overall), "files": per_file}
