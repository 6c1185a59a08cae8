"""What each format of a GGUF file's weights loses: `python -m benchmarks.stored_weights MODEL.gguf`.

Over all positions of twenty short prompts it prints the mean Kullback-Leibler divergence of the model's distributions
from those of the file's own values in float32, how often the likeliest token is the same, and the bytes and the time of
a pass. Keys and values are in float32, so that beside the weights only activations are rounded.
"""

import argparse
import time
from collections.abc import Sequence as Seq
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.distributions import divergences, log_probabilities
from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.config import CPU_WEIGHT_FORMATS, resolve_isa, resolve_threads
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch, Decoder, Device
from services.engine.decoder.weight_choice import STORED
from services.engine.text.tokenizer import Tokenizer

_BLOCKS, _TIMED = 4, 16  # blocks of the KV cache; timed passes over one row
_PROMPTS = (
    "The capital of France is Paris, and the capital of Italy is",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    ",
    "Write a Python function that merges two sorted lists.",
    "In 1969, the first human being walked on the",
    "SELECT name, count(*) FROM users GROUP BY",
    "Once upon a time there was a little girl who lived in",
    "import numpy as np\n\ndef softmax(x):\n    return",
    "The derivative of x^2 is 2x, and the derivative of x^3 is",
    "Die Hauptstadt von Deutschland ist Berlin, und",
    "class Stack:\n    def __init__(self):\n        self.items = []\n",
    "Water boils at a temperature of 100 degrees",
    "#include <stdio.h>\nint main() {\n    printf(",
    "To be or not to be, that is the question:",
    '{"name": "Alice", "age": 30, "city": "',
    "The quick brown fox jumps over the lazy dog, and then",
    "for i in range(10):\n    print(i",
    "The theory of relativity was developed by Albert",
    'git commit -m "Fix the',
    "A binary search tree is a data structure in which each node",
    "中国的首都是北京，日本的首都是",
)


def main() -> None:
    """Print the table of formats."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--weights", nargs="+", default=[STORED, *CPU_WEIGHT_FORMATS], help="formats (%(default)s)")
    parser.add_argument("--isa", default=resolve_isa(), help="instruction set (%(default)s)")
    arguments = parser.parse_args()
    checkpoint = load_checkpoint(arguments.model, context_length=_BLOCKS * BLOCK_SIZE)
    prompts = [*map(Tokenizer.from_model(arguments.model).encode, _PROMPTS)]
    device = Device.cpu(arguments.isa, resolve_threads())
    expected = _log_probabilities(_load(checkpoint, device, "f32"), prompts)
    print(
        "| weights | KL | largest | same token | MB of a pass | ms |\n| --- | --- | --- | --- | --- | --- |", flush=True
    )
    for weights in arguments.weights:
        decoder = _load(checkpoint, device, weights)
        found = _log_probabilities(decoder, prompts)
        lost = np.concatenate([divergences(*pair) for pair in zip(expected, found, strict=True)])
        agreements = [e.argmax(axis=1) == f.argmax(axis=1) for e, f in zip(expected, found, strict=True)]
        figures = f"{lost.mean():.6f} | {lost.max():.4f} | {np.concatenate(agreements).mean():.3f}"
        print(
            f"| {weights} | {figures} | {decoder.weight_bytes / 1e6:.0f} | {_milliseconds(decoder):.1f} |", flush=True
        )


def _load(checkpoint: Checkpoint, device: Device, weights: str) -> Decoder:
    return load_decoder(checkpoint, device, weights=weights, kv="f32", num_blocks=_BLOCKS)


def _batch(token_ids: Seq[int], position: int = 0) -> Batch:
    batch = Batch(max_rows=_BLOCKS * BLOCK_SIZE, max_sequences=1, max_blocks=_BLOCKS)
    batch.append(token_ids, position=position, blocks=range(_BLOCKS), num_logits=len(token_ids))
    return batch


def _log_probabilities(decoder: Decoder, prompts: Seq[Seq[int]]) -> list[NDArray[np.float32]]:
    """Return the log-probabilities of the token after each one of a prompt.  # for each prompt: [tokens, vocab]"""
    return [log_probabilities(decoder.forward(_batch(prompt)).logits.numpy()) for prompt in prompts]


def _milliseconds(decoder: Decoder) -> float:
    """Return the median time of passes over one row."""
    times = []
    for position in range(_TIMED):
        began = time.perf_counter()
        decoder.forward(_batch([0], position))
        times.append(1e3 * (time.perf_counter() - began))
    return float(np.median(times))


if __name__ == "__main__":
    main()
