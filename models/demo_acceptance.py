"""How often the draft or the head predicts the target's tokens, after the beginnings of documents new to all."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import torch
from demo_corpus import END_OF_TEXT
from demo_head import Head, agreements
from demo_model import Llama, generate
from demo_training import gumbel_noise
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

PROMPT_TOKENS = 16  # about the first line of a function
NEW_TOKENS = 120
DRAFT_LENGTHS = (3, 5, 8)
PROMPTS_AT_ONCE = 32
Runs = list[list[bool]]
"""For each token of a text, whether the predictions of a run that begins with it are right."""


@dataclass(frozen=True)
class Pair:
    """A target, what predicts it, and their one tokenizer."""

    target: Llama
    drafter: Llama | Head
    tokenizer: Tokenizer


@dataclass(frozen=True)
class Acceptance:
    """The share of agreed tokens, and the tokens that one pass of the target yields for each draft length; of a head it
    is the share in which its first token agrees.
    """

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
def agreement(pair: Pair, prompts: Tensor, temperature: float, seed: int) -> list[Runs]:
    """For each prompt and each position of the target's text, whether the predictions of a run from there on agree.

    Above temperature 0 both add the same Gumbel noise to their logits, as the services do.
    """
    noise = None
    if temperature > 0:
        generator = torch.Generator().manual_seed(seed)
        noise = gumbel_noise(len(prompts), NEW_TOKENS, pair.target.shape.vocab, temperature, generator)
    chosen = generate(pair.target, prompts, NEW_TOKENS, noise)
    agreed = _runs(pair, torch.cat([prompts, chosen], dim=1), None if noise is None else torch.stack(noise, dim=1))
    end = pair.tokenizer.token_to_id(END_OF_TEXT)
    answers = [whole(answer, end) for answer in chosen.tolist()]
    cut = [_cut(runs, len(answer)) for runs, answer in zip(agreed.tolist(), answers, strict=True)]
    first = 1 if isinstance(pair.drafter, Head) else 0  # a head reads the pass that draws the first token
    return [runs[first:] for runs in cut]


def _runs(pair: Pair, ids: Tensor, noise: Tensor | None) -> Tensor:
    """Whether the predictions of a run that begins at each new token are these tokens.  # [rows, tokens, run]"""
    drafter, most = pair.drafter, max(DRAFT_LENGTHS)
    if isinstance(drafter, Head):
        return agreements(pair.target, drafter, ids, noise, most)[:, -NEW_TOKENS:]
    logits = drafter.logits(ids[:, :-1])[:, -NEW_TOKENS:]
    if noise is not None:
        logits += noise
    right = functional.pad(logits.argmax(dim=-1) == ids[:, -NEW_TOKENS:], (0, most - 1))
    return right.unfold(-1, most, 1)


def _cut(runs: Runs, length: int) -> Runs:
    """The runs that begin in the first tokens, as far as these go."""
    return [run[: length - position] for position, run in enumerate(runs[:length])]


def passes_needed(runs: Runs, draft_length: int) -> int:
    """Replay speculative decoding: each pass yields the agreed part of a run and one token of the target."""
    position = passes = 0
    while position < len(runs):
        run = runs[position][:draft_length]
        position += 1 + (run.index(False) if False in run else len(run))
        passes += 1
    return passes


def summarise(agreed: list[Runs]) -> Acceptance:
    """The figures of agreements, those of each prompt."""
    total = sum(map(len, agreed))
    passes = {length: sum(passes_needed(runs, length) for runs in agreed) for length in DRAFT_LENGTHS}
    firsts = sum(run[0] for runs in agreed for run in runs)
    return Acceptance(firsts / total, {length: total / n for length, n in passes.items()})


def measure(pair: Pair, documents: Mapping[int, str], temperature: float, seed: int) -> dict[str, object]:
    """Measure the acceptance rate after the beginnings of the documents, ready for JSON."""
    prompts = prompts_of(pair.tokenizer, documents)
    agreed = [
        row
        for index, part in enumerate(prompts.split(PROMPTS_AT_ONCE))
        for row in agreement(pair, part, temperature, seed + index)
    ]
    return {"temperature": temperature, "prompts": len(prompts)} | asdict(summarise(agreed))
