"""The models of the end-to-end tests: the demo pair, one random checkpoint per architecture, and drafts for them.

Published ones are where `place` has put links to them.
"""

import functools
import hashlib
import json
import os
import shutil
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tokenizers

from services.engine.checkpoint.attached.drafter_kind import DrafterKind
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import ModelConfig
from tests.e2e.matrix.cells import FURTHER, PUBLISHED, QUANTISED
from tests.harness.models.block_folders import (
    MASK,
    block_tensors,
    deepspec_fields,
    markov_tensors,
    speculators_block_fields,
)
from tests.harness.models.drafter_folders import (
    BOUNDARIES,
    SMALL,
    Tensors,
    drafter_tensors,
    original_fields,
    write_drafter,
)

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).parents[3]
MATRIX = ROOT / ".matrix"
DEMO_TARGET = ROOT / "models" / "demo" / "target"
DEMO_DRAFT = ROOT / "models" / "demo" / "draft"
DEMO_HEAD = ROOT / "models" / "demo" / "head"
_RECIPES = (
    *(
        ROOT / "tests" / "harness" / "models" / f"{name}.py"
        for name in (
            *("checkpoints", "further_checkpoints", "quantised_folders", "mxfp4_folders"),
            *("drafter_folders", "one_step_models", "mtp_folders", "block_folders", "ring_models"),
            "assistant_folders",
        )
    ),
    Path(__file__),
)
_BLOCKS_OF = {"llama": DrafterKind.DFLASH, "qwen3": DrafterKind.DSPARK, "gemma2": DrafterKind.P_EAGLE}
_BLUR = 0.01
_FEW_WORDS = 60
_FOREIGN_SIZE = 2048  # tokens


@functools.cache
def folder(model: str) -> Path:
    """The checkpoint of a model; a random one is written once for each version of its recipe."""
    if model == "demo":
        return DEMO_TARGET
    if model in PUBLISHED:
        return _placed(model, "target")
    if model == "gemma4_one_step":
        return _constructed(model) / "target" / "model"
    if model in ("one_step", "ring"):
        return _constructed(model) / "target"
    if model in ("mtp", "mtp_one_step"):
        return _written(model, lambda path: _write_mtp(path, is_right=model == "mtp_one_step")) / "model"

    def write(path: Path) -> None:
        from tests.harness.models.checkpoints import (  # slow to import, and not needed by servers
            Kind,
            write_random_checkpoint,
        )
        from tests.harness.models.further_checkpoints import Further, write_further_checkpoint

        if model in QUANTISED:
            _write_quantised(path, model)
        elif model in FURTHER:
            write_further_checkpoint(path, Further(model))
        else:
            write_random_checkpoint(path, Kind(model))

    return _written(model, write)


def _write_mtp(path: Path, *, is_right: bool) -> None:
    from tests.harness.models.further_checkpoints import Further
    from tests.harness.models.mtp_folders import write_mtp_folder, write_one_step_model

    path.mkdir()
    (write_one_step_model if is_right else write_mtp_folder)(Further.QWEN3_5, path)


def _write_quantised(path: Path, model: str) -> None:
    from tests.harness.models.checkpoints import Kind, write_random_checkpoint
    from tests.harness.models.mxfp4_folders import write_mxfp4_checkpoint
    from tests.harness.models.quantised_folders import WAYS, quantise

    if model == "mxfp4":
        write_mxfp4_checkpoint(path)
        return
    ways = {"gptq": "gptq with zero points", "awq": "awq of 64", "packed": "int4 packed", "float8": "float8 in blocks"}
    write_random_checkpoint(path, Kind.LLAMA)
    quantise(path, WAYS[ways[model]])


@functools.cache
def draft_folder(model: str, kind: str) -> Path:
    """The checkpoint of a model's draft: a "good" one is right more often than not, a "random" one hardly ever.

    A "reworded" one is the good one with another vocabulary.
    """
    if kind == "reworded":
        return reworded_draft_folder(model, num_dropped=_FEW_WORDS)
    if (model, kind) == ("demo", "good"):
        return DEMO_DRAFT
    if model in PUBLISHED:
        return _placed(model, "draft")
    source = DEMO_DRAFT if model == "demo" else folder(model)

    def write(path: Path) -> None:
        import torch

        from tests.harness.models.checkpoints import edit_weights

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
def head_folder(model: str, source: str) -> Path | None:
    """The folder of a model's attached drafter, one of ATTACHED; None if it is a layer of its own."""
    if source.endswith("layer"):
        return None
    if source.startswith("constructed"):
        return _constructed(model) / "drafter"
    if source == "trained head":
        return DEMO_HEAD

    def write(path: Path) -> None:
        if source == "random assistant":
            _write_random_assistant(path, model)
            return
        target = load_checkpoint(folder(model)).config
        if source == "random blocks":
            write_drafter(path, *_random_blocks(target, _BLOCKS_OF[model]))
        else:
            write_drafter(path, original_fields(target), drafter_tensors(target))

    return _written(f"{model}-{source.replace(' ', '-')}", write)


def _random_blocks(target: ModelConfig, kind: DrafterKind) -> tuple[dict[str, Any], Tensors]:
    hidden, size = target.hidden_size, target.vocab_size
    if kind is DrafterKind.DFLASH:
        return speculators_block_fields(target), block_tensors(target, head_size=SMALL)
    if kind is DrafterKind.DSPARK:
        return deepspec_fields(target), block_tensors(target) | markov_tensors(target, size, hidden)
    mask = np.random.default_rng(2).standard_normal((1, len(BOUNDARIES) * hidden)).astype(np.float32)
    return original_fields(target, pard_token=MASK), drafter_tensors(target) | {"mask_hidden": mask}


def _constructed(model: str) -> Path:
    def write(path: Path) -> None:
        from tests.harness.models.assistant_folders import write_one_step_assistant
        from tests.harness.models.one_step_models import write_one_step_pair
        from tests.harness.models.ring_models import write_ring_pair

        path.mkdir()
        writers = {"ring": write_ring_pair, "gemma4_one_step": write_one_step_assistant}
        writers.get(model, write_one_step_pair)(path)

    return _written(model.replace("_", "-"), write)


def _write_random_assistant(path: Path, model: str) -> None:
    """Write a drafter of a Gemma 4 that knows nothing."""
    from tests.harness.models.assistant_folders import write_assistant
    from tests.harness.models.further_checkpoints import Further

    write_assistant(path, Further(model))


def place(model: str, *, target: Path, draft: Path) -> None:
    """Set where a published model and its draft are, for this process and those that it starts."""
    for role, path in (("target", target), ("draft", draft)):
        link = MATRIX / "published" / f"{model}-{role}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(path.resolve())


def _placed(model: str, role: str) -> Path:
    return (MATRIX / "published" / f"{model}-{role}").resolve(strict=True)


@functools.cache
def reworded_draft_folder(model: str = "demo", *, num_dropped: int = 600, num_padded: int = 0) -> Path:
    """A good draft with another vocabulary: the ids in reverse, without the last tokens, and padded in the model."""

    def write(path: Path) -> None:
        import torch

        from tests.harness.models.checkpoints import edit_weights

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
        sizes = [name for name in ("vocab_size", "vocab_size_per_layer_input") if name in config]
        _edit_json(path / "config.json", **dict.fromkeys(sizes, size + num_padded), **ends)

        def edit(tensors: dict[str, torch.Tensor]) -> None:
            tables = {"model.embed_tokens.weight", "model.embed_tokens_per_layer.weight", "lm_head.weight"}
            for name in tensors.keys() & tables:
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

        from tests.harness.models.checkpoints import edit_weights

        shutil.copytree(DEMO_DRAFT, path)
        words = json.loads((path / "config.json").read_text())["vocab_size"]
        _edit_json(path / "config.json", vocab_size=words + num_padded)

        def edit(tensors: dict[str, torch.Tensor]) -> None:
            words = tensors["model.embed_tokens.weight"]
            tensors["model.embed_tokens.weight"] = torch.cat([words, words[256 : 256 + num_padded]]).contiguous()

        edit_weights(path, edit)

    return _written(f"demo-padded-{num_padded}-draft", write)


@functools.cache
def foreign_draft_folder() -> Path:
    """A draft whose words end with their space, not begin with it, so that it shares few of the demo target's tokens.

    Its model is a table of what follows each token in the standard library.
    """

    def write(path: Path) -> None:
        import torch
        from safetensors.torch import save_file

        texts = [file.read_text() for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))]
        tokenizer = _foreign_tokenizer(texts)
        counts = torch.full((_FOREIGN_SIZE, _FOREIGN_SIZE), 0.001)  # of [token, next token]
        for text in texts:
            ids = torch.tensor(tokenizer.encode(text).ids)
            counts.index_put_((ids[:-1], ids[1:]), torch.ones(len(ids) - 1), accumulate=True)
        shutil.copytree(DEMO_DRAFT, path)
        tokenizer.save(str(path / "tokenizer.json"))
        shape = {"hidden_size": _FOREIGN_SIZE, "vocab_size": _FOREIGN_SIZE, "intermediate_size": 64, "head_dim": 64}
        heads = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
        _edit_json(path / "config.json", **shape, **heads, tie_word_embeddings=False)
        norm = (1 / _FOREIGN_SIZE + 1e-5) ** 0.5  # of a row of the embedding
        save_file(
            {
                **_idle_layer(_FOREIGN_SIZE),
                "model.embed_tokens.weight": torch.eye(_FOREIGN_SIZE).bfloat16(),
                "model.norm.weight": torch.ones(_FOREIGN_SIZE).bfloat16(),
                "lm_head.weight": (counts / counts.sum(1, keepdim=True)).log().mul(norm).T.contiguous().bfloat16(),
            },
            path / "model.safetensors",
            metadata={"format": "pt"},
        )

    return _written("demo-foreign-draft", write)


def _foreign_tokenizer(texts: Iterable[str]) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    words = tokenizers.Regex(r"[\p{L}_]+ ?|\p{N} ?|[^\s\p{L}\p{N}_]+ ?|[\r\n]+ *|[ \t]+")
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(words, "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=_FOREIGN_SIZE,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _idle_layer(hidden: int) -> "dict[str, torch.Tensor]":
    """A layer that adds nothing, with one head of 64 and as wide a feed-forward part."""
    import torch

    inner = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
    weights = {
        **{name: torch.zeros(64, hidden) for name in inner},
        **{name: torch.zeros(hidden, 64) for name in ("self_attn.o_proj", "mlp.down_proj")},
        **{name: torch.ones(hidden) for name in ("input_layernorm", "post_attention_layernorm")},
    }
    return {f"model.layers.0.{name}.weight": weight.bfloat16() for name, weight in weights.items()}


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
