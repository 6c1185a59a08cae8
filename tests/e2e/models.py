"""The models of the end-to-end tests: the demo pair, one random checkpoint per architecture, and drafts for them."""

import functools
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
MATRIX = ROOT / ".matrix"
DEMO_TARGET = ROOT / "models" / "demo" / "target"
DEMO_DRAFT = ROOT / "models" / "demo" / "draft"
_RECIPES = (ROOT / "tests" / "checkpoints.py", Path(__file__))
_BLUR = 0.01
_FEW_WORDS = 60


@functools.cache
def folder(model: str) -> Path:
    """The checkpoint of a model; a random one is written once for each version of its recipe."""
    if model == "demo":
        return DEMO_TARGET

    def write(path: Path) -> None:
        from tests.checkpoints import Kind, write_random_checkpoint  # slow to import, and not needed by servers

        write_random_checkpoint(path, Kind(model))

    return _written(model, write)


@functools.cache
def draft_folder(model: str, kind: str) -> Path:
    """The checkpoint of a model's draft: a "good" one is right more often than not, a "random" one hardly ever.

    A "reworded" one is the good one with another vocabulary.
    """
    if kind == "reworded":
        return reworded_draft_folder(model, num_dropped=_FEW_WORDS)
    if (model, kind) == ("demo", "good"):
        return DEMO_DRAFT
    source = DEMO_DRAFT if model == "demo" else folder(model)

    def write(path: Path) -> None:
        import torch

        from tests.checkpoints import edit_weights

        def edit(tensors: dict[str, torch.Tensor]) -> None:
            generator = torch.Generator().manual_seed(11)
            for name, tensor in tensors.items():
                if kind == "good":
                    noise = torch.randn(tensor.shape, generator=generator)
                    tensors[name] = (tensor * (1 + _BLUR * noise)).to(tensor.dtype)
                else:
                    order = torch.randperm(tensor.numel(), generator=generator)
                    tensors[name] = tensor.flatten()[order].reshape(tensor.shape)

        shutil.copytree(source, path)
        edit_weights(path, edit)

    return _written(f"{model}-{kind}-draft", write)


@functools.cache
def reworded_draft_folder(model: str = "demo", *, num_dropped: int = 600, num_padded: int = 0) -> Path:
    """A good draft with another vocabulary: the ids in reverse, without the last tokens, and padded in the model."""

    def write(path: Path) -> None:
        import torch

        from tests.checkpoints import edit_weights

        shutil.copytree(draft_folder(model, "good"), path)
        tokenizer = json.loads((path / "tokenizer.json").read_text())
        bpe = tokenizer["model"]
        size = len(bpe["vocab"]) - num_dropped
        bpe["vocab"] = {token: size - 1 - old for token, old in bpe["vocab"].items() if old < size}
        bpe["merges"] = bpe["merges"][: len(bpe["merges"]) - num_dropped]
        for added in tokenizer["added_tokens"]:
            added["id"] = bpe["vocab"][added["content"]]
        tokenizer["post_processor"] = None  # it would put in old ids
        (path / "tokenizer.json").write_text(json.dumps(tokenizer))
        config = json.loads((path / "config.json").read_text())
        ends = {name: size - 1 - config[name] for name in ("bos_token_id", "eos_token_id")}
        _edit_json(path / "config.json", vocab_size=size + num_padded, **ends)

        def edit(tensors: dict[str, torch.Tensor]) -> None:
            for name in tensors.keys() & {"model.embed_tokens.weight", "lm_head.weight"}:
                words = tensors[name][:size].flip(0)
                padding = words[:1].expand(num_padded, -1)
                tensors[name] = torch.cat([words, padding]).contiguous()

        edit_weights(path, edit)

    return _written(f"{model}-reworded-{num_dropped}-{num_padded}-draft", write)


@functools.cache
def padded_draft_folder(num_padded: int) -> Path:
    """The demo draft with its own vocabulary, padded in the model with ids that are as likely as common ones."""

    def write(path: Path) -> None:
        import torch

        from tests.checkpoints import edit_weights

        shutil.copytree(DEMO_DRAFT, path)
        words = json.loads((path / "config.json").read_text())["vocab_size"]
        _edit_json(path / "config.json", vocab_size=words + num_padded)

        def edit(tensors: dict[str, torch.Tensor]) -> None:
            words = tensors["model.embed_tokens.weight"]
            tensors["model.embed_tokens.weight"] = torch.cat([words, words[256 : 256 + num_padded]]).contiguous()

        edit_weights(path, edit)

    return _written(f"demo-padded-{num_padded}-draft", write)


def _edit_json(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def _written(name: str, write: Callable[[Path], None]) -> Path:
    digest = hashlib.sha256(b"".join(recipe.read_bytes() for recipe in _RECIPES)).hexdigest()[:12]
    path = MATRIX / "checkpoints" / digest / name
    if path.exists():
        return path
    unfinished = path.with_name(f"{name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    write(unfinished)
    try:
        unfinished.rename(path)
    except OSError:
        if not path.exists():
            raise
        shutil.rmtree(unfinished)  # another process was faster
    return path
