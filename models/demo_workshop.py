"""One run of the training script: where the models go, what they learn from, and what is known about them."""

import json
import platform
from collections.abc import Iterator
from pathlib import Path

import torch
from demo_acceptance import prompts_of
from demo_checkpoint import load_tokenizer
from demo_corpus import Corpus, encode_documents, load_corpus, mixed_batches
from demo_documents import Documents, load_documents, renamed
from demo_training import Plan
from tokenizers import Tokenizer
from torch import Tensor

TESTS_WEIGHT = 0.4  # of every batch of library text; the library has the rest
RENAMED_COPIES = 2
GENERAL_WEIGHT = 0.15  # of every batch of a stage that learns documents; the library and its tests have it


class Workshop:
    """One run of the script: where the models go, what they learn from, and what is known about them."""

    def __init__(self, folder: Path, state: Path, start: Path, seed: int, scale: float) -> None:
        self.folder, self.state, self.start = folder, state, start
        self.seed, self.scale = seed, scale
        self.corpus: Corpus = load_corpus()
        self.generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)

    def tokenizer(self) -> Tokenizer:
        """The shared tokenizer, which the first stage made."""
        return load_tokenizer(self.folder / "target")

    def streams(self) -> list[tuple[Tensor, float]]:
        """The training text as token ids, with weights."""
        tokenizer = self.tokenizer()
        return [
            (encode_documents(tokenizer, self.corpus.library), 1 - TESTS_WEIGHT),
            (encode_documents(tokenizer, self.corpus.tests), TESTS_WEIGHT),
        ]

    def heldout(self) -> Tensor:
        """The held-out files as token ids."""
        return encode_documents(self.tokenizer(), self.corpus.heldout)

    def documents(self) -> Documents:
        """What a published model wrote, as stage `divide` left it."""
        return load_documents(self.folder)

    def narrow_streams(self) -> list[tuple[Tensor, float]]:
        """These documents, twice more under other names, and some of the other text, as token ids with weights."""
        copies = [encode_documents(self.tokenizer(), text) for text in self._narrow_texts()]
        total = sum(map(len, copies))
        narrow = [(copy, (1 - GENERAL_WEIGHT) * len(copy) / total) for copy in copies]
        return narrow + [(stream, GENERAL_WEIGHT * weight) for stream, weight in self.streams()]

    def narrow_prompts(self) -> Tensor:
        """How these documents begin, in random order; then how they do under other names.  # [prompts, tokens]"""
        prompts = [prompts_of(self.tokenizer(), text) for text in self._narrow_texts()]
        return torch.cat([part[torch.randperm(len(part), generator=self.generator)] for part in prompts])

    def _narrow_texts(self) -> list[dict[int, str]]:
        trained = self.documents().trained
        return [trained, *(renamed(trained, self.seed + copy) for copy in range(RENAMED_COPIES))]

    def heldout_documents(self) -> Tensor:
        """The held-out documents as token ids."""
        return encode_documents(self.tokenizer(), self.documents().heldout)

    def batches(self, sources: list[tuple[Tensor, float]], plan: Plan) -> Iterator[Tensor]:
        """The batches that a plan asks for."""
        return mixed_batches(sources, plan.rows, plan.length, self.generator)

    def note(self, stage: str, facts: dict[str, object]) -> None:
        """Write what a stage found to training.json, beside what the other stages found."""
        path = self.folder / "training.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        known[stage] = {"python": platform.python_version(), "torch": torch.__version__, "seed": self.seed} | facts
        path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        print(stage, json.dumps(facts)[:400], flush=True)
