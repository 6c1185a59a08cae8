"""Perplexity of a model in each format of weights and KV cache, and what each loses of the file's own values."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from pathlib import Path

from benchmarks.quality import Formats, measure
from services.engine.config import CPU_KV_FORMATS, CPU_WEIGHT_FORMATS
from services.engine.decoder.weight_choice import STORED

HEAD = "| weights | KV | perplexity | KL from the file's values (nats) |\n| --- | --- | --- | --- |"
_EXACT = Formats("f32", "f32")
_USUAL_KV = "bf16"


def format_names(path: Path) -> list[str]:
    """The values as they are, every format of weights beside usual keys and values, then every format of these."""
    first = [STORED] if path.suffix == ".gguf" else []
    weights = [Formats(each, _USUAL_KV) for each in (*first, *CPU_WEIGHT_FORMATS)]
    kv = [Formats(weights[0].weights, each) for each in CPU_KV_FORMATS if each != _USUAL_KV]
    return [f"{each.weights} {each.kv}" for each in (_EXACT, *weights, *kv)]


def perplexity_rows(path: Path, names: Seq[str], *, num_windows: int) -> Iterator[str]:
    """Yield the row of each of the formats."""
    formats = [Formats(*name.split()) for name in names]
    for one, quality in measure(path, formats, num_windows=num_windows, base=_EXACT):
        yield f"| {one.weights} | {one.kv} | {quality.perplexity:.3f} | {quality.divergence:.4f} |"
