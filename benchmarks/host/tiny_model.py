"""A model of one tiny layer with a real tokenizer: what a pass takes is then the host's work."""

import json
import shutil
from pathlib import Path

import numpy as np

_WIDTH = 64  # of everything but the vocabulary
_LAYER = "model.layers.0."
_MATRICES = (
    *("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
    *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
)


def write_tiny_model(like: Path, folder: Path) -> None:
    """Write a random model with the tokenizer and the vocabulary of another one, a Llama, to an existing folder."""
    for file in like.glob("*token*"):
        shutil.copy(file, folder)
    config = json.loads((like / "config.json").read_text())
    config |= dict.fromkeys(("hidden_size", "intermediate_size", "head_dim"), _WIDTH)
    config |= dict.fromkeys(("num_hidden_layers", "num_attention_heads", "num_key_value_heads"), 1)
    (folder / "config.json").write_text(json.dumps(config))
    random = np.random.default_rng(0)
    tensors = {f"{_LAYER}{name}.weight": random.normal(size=(_WIDTH, _WIDTH)) / _WIDTH**0.5 for name in _MATRICES}
    tensors["model.embed_tokens.weight"] = random.normal(size=(config["vocab_size"], _WIDTH))
    norms = ("model.norm", f"{_LAYER}input_layernorm", f"{_LAYER}post_attention_layernorm")
    tensors |= {f"{name}.weight": np.ones(_WIDTH) for name in norms}
    _write_safetensors(folder / "model.safetensors", tensors)


def _write_safetensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    header, end = {}, 0
    for name, values in tensors.items():
        begin, end = end, end + 4 * values.size
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [begin, end]}
    written = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(written).to_bytes(8, "little") + written)
        file.writelines(values.astype("<f4").tobytes() for values in tensors.values())
