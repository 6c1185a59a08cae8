"""The kinds of prompts, and the prompts of each as token ids."""

from collections.abc import Sequence as Seq
from contextlib import suppress
from itertools import chain, zip_longest
from pathlib import Path

from outrider import Client, InvalidArgument, Message

CODE, DOCUMENT = "code", "document"
SHORT = ("chat", CODE, "json")
KINDS = (*SHORT, DOCUMENT)
MIXED = "mixed"


def prompts_of(client: Client, kind: str) -> list[tuple[int, ...]]:
    """Return the prompts of a kind: code is text to continue, others are user messages if the model has a template."""
    text = (Path(__file__).parent / f"{kind}.txt").read_text()
    texts = [text] if kind == DOCUMENT else text.strip("\n").split("\n\n")
    return [_encoded(client, each.rstrip("\n"), is_said=kind != CODE) for each in texts]


def _encoded(client: Client, text: str, *, is_said: bool) -> tuple[int, ...]:
    if is_said:
        with suppress(InvalidArgument):  # it has no chat template
            return tuple(client.tokenize([Message("user", text)]).token_ids)
    return tuple(client.tokenize(text).token_ids)


def mixed_prompts(client: Client, count: int) -> list[tuple[int, ...]]:
    """Return `count` different short prompts, of each kind in turn; raises ValueError if there are fewer."""
    rows = zip_longest(*(prompts_of(client, kind) for kind in SHORT))
    prompts = [prompt for prompt in chain.from_iterable(rows) if prompt is not None]
    if count > len(prompts):
        raise ValueError(f"streams is {count}; there are {len(prompts)} prompts")
    return prompts[:count]


def longest(prompts: Seq[Seq[int]]) -> int:
    """Return the number of tokens of the longest prompt."""
    return max(map(len, prompts))
