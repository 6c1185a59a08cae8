"""folder_source: a Hugging Face folder, read as what a checkpoint is made of."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from services.engine.checkpoint.architectures import expand_names, read_architecture
from services.engine.checkpoint.checkpoint_source import CheckpointSource
from services.engine.checkpoint.generation_defaults import (
    read_eos_token_ids,
    read_generation_defaults,
    warn_of_what_is_not_carried_out,
)
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.checkpoint.tensor_files import TensorFiles
from services.engine.files.json_fields import JsonFields

_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"
_RECOMPUTED = ".rotary_emb.inv_freq"  # old checkpoints store what config.json implies


def read_folder(folder: Path, context_length: int | None) -> CheckpointSource:
    """Read a folder's configuration and open its weights; raises CheckpointError naming the file at fault."""
    fields = JsonFields.from_file(folder / "config.json")
    generation = JsonFields.from_file_if_any(folder / "generation_config.json")
    architecture, config = read_architecture(fields, context_length)
    defaults = read_generation_defaults(generation)
    eos_token_ids = read_eos_token_ids(generation, fields, config.vocab_size)
    warn_of_what_is_not_carried_out(generation)
    files = TensorFiles(folder)
    config = _untie(config, files)
    recomputed = {name for name in files if name.endswith(_RECOMPUTED)}
    return CheckpointSource(
        path=folder,
        described_by="config.json",
        config=config,
        generation=defaults,
        eos_token_ids=eos_token_ids,
        tensors=files,
        names=expand_names(architecture.names, config.num_layers),
        ignored=frozenset(recomputed | ({_HEAD} if config.tied_embeddings else set())),
        norms_are_offsets=architecture.norms_are_offsets,
        foreign_tokens=architecture.foreign_tokens,
    )


def _untie(config: ModelConfig, files: TensorFiles) -> ModelConfig:
    """Follow transformers where a tied checkpoint holds an output matrix of its own: it counts if it differs."""
    if not config.tied_embeddings or _HEAD not in files or _EMBEDDING not in files:
        return config
    return replace(config, tied_embeddings=np.array_equal(files.tensor(_HEAD), files.tensor(_EMBEDDING)))
