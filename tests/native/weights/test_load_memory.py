"""Loading takes little more memory than the packed weights, however large the checkpoint is beside them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers

from services.engine.config import CPU_WEIGHT_FORMATS
from services.engine.decoder.native import isas

MOST = 1.3  # times the packed weights
ENDS = {"bf16", "int4"}  # the format of the file, and the one that is smallest beside it


pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """277 MB of weights in bf16, all of them alike: it takes seconds to draw so many."""
    config = transformers.LlamaConfig(
        vocab_size=16384,
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=4,
        tie_word_embeddings=True,
    )
    folder = tmp_path_factory.mktemp("checkpoint")
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.to_empty(device="cpu")
    model.tie_weights()
    for weight in model.parameters():
        torch.nn.init.constant_(weight, 0.5)
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "weights", [pytest.param(each, marks=[pytest.mark.exhaustive] * (each not in ENDS)) for each in CPU_WEIGHT_FORMATS]
)
def test_loading_needs_little_more_than_the_packed_weights(checkpoint: Path, weights: str):
    command = [sys.executable, "-m", "tests.native.harness.load_peak", str(checkpoint), isas()[0], weights]
    measured = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert measured["peak"] < MOST * measured["weights"]
