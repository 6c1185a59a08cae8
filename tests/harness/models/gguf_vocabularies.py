"""GGUF files of small vocabularies, without tensors, written by the gguf package."""

from pathlib import Path
from typing import Any

import gguf


def write_vocabulary(path: Path, vocabulary: dict[str, Any], pre: str | None) -> Path:
    """Write a file without tensors: tokens, types, and scores or merges; and what else the vocabulary says."""
    writer = gguf.GGUFWriter(path, "llama")
    shape = {"context_length": 64, "embedding_length": 32, "block_count": 1, "feed_forward_length": 32}
    for name, value in shape.items():
        getattr(writer, f"add_{name}")(value)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model(vocabulary["model"])
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(vocabulary["tokens"])
    writer.add_token_types(vocabulary["types"])
    if "scores" in vocabulary:
        writer.add_token_scores(vocabulary["scores"])
    if "merges" in vocabulary:
        writer.add_token_merges(vocabulary["merges"])
    if "chat_template" in vocabulary:
        writer.add_chat_template(vocabulary["chat_template"])
    for key, value in vocabulary.get("keys", {}).items():
        add_value(writer, f"tokenizer.ggml.{key}", value)
    finish(writer)
    return path


def add_value(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    """Set a key to a value of its type; a whole number takes 32 bits."""
    add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    add.get(type(value), writer.add_array)(key, value)  # type: ignore[operator]


def finish(writer: gguf.GGUFWriter) -> None:
    """Write all that has been added."""
    for stage in ("header", "kv_data", "tensors"):
        getattr(writer, f"write_{stage}_to_file")()
    writer.close()
