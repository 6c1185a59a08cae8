"""What the storage formats cost in quality: `python -m services.bench.experiments.quality`.

Perplexity of the demo target on text that it has not seen (files of Python's own library, models/demo/heldout.txt), and
the mean Kullback-Leibler divergence of its distributions from those of bf16, for each format of weights and KV cache.
"""

import argparse
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.engine.config import CPU_KV_FORMATS, CPU_WEIGHT_FORMATS, EngineConfig, resolve_isa, resolve_threads
from services.engine.decoder.native import Batch
from services.engine.loaded_model import LoadedModel

_DEMO = Path(__file__).parents[3] / "models" / "demo"
_WINDOW = 512  # tokens


@dataclass(frozen=True)
class Formats:
    """How a model is held."""

    weights: str
    kv: str


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=_DEMO / "target", metavar="DIR", help="(the demo target)")
    parser.add_argument("--windows", type=int, default=40, metavar="N", help="of 512 tokens each (%(default)s)")
    arguments = parser.parse_args()
    base = Formats("bf16", "bf16")
    formats = [base, *(Formats(w, kv) for w in CPU_WEIGHT_FORMATS for kv in CPU_KV_FORMATS if Formats(w, kv) != base)]
    models = {each: _load(arguments.model, each) for each in formats}
    losses: dict[Formats, list[float]] = {each: [] for each in formats}
    divergences: dict[Formats, list[float]] = {each: [] for each in formats}
    for window in _windows(models[base], arguments.windows):
        expected = _log_probabilities(models[base], window)
        for each, model in models.items():
            found = expected if each == base else _log_probabilities(model, window)
            losses[each].append(float(-np.take_along_axis(found[:-1], window[1:, None], axis=1).mean()))
            divergences[each].append(float((np.exp(expected) * (expected - found)).sum(axis=1).mean()))
    print("| weights | KV | perplexity | KL from bf16 (nats) |\n| --- | --- | --- | --- |")
    for each in formats:
        perplexity, divergence = np.exp(np.mean(losses[each])), np.mean(divergences[each])
        print(f"| {each.weights} | {each.kv} | {perplexity:.3f} | {divergence:.6f} |")


def _load(model: Path, formats: Formats) -> LoadedModel:
    config = EngineConfig(
        model=model,
        isa=resolve_isa(),
        threads=resolve_threads(),
        weights=formats.weights,
        kv=formats.kv,
        max_sequences=1,
        context_length=_WINDOW,
    )
    return LoadedModel.load(config)


def _windows(model: LoadedModel, count: int) -> Iterator[NDArray[np.int64]]:
    """Token ids of whole windows, the files taken in turn."""
    library = Path(sysconfig.get_paths()["stdlib"])
    names = (_DEMO / "heldout.txt").read_text().split()
    texts = [np.array(model.tokenizer.encode((library / name).read_text())) for name in names]
    for start in range(0, max(map(len, texts)), _WINDOW):
        for ids in texts:
            if start + _WINDOW <= len(ids) and count > 0:
                count -= 1
                yield ids[start : start + _WINDOW]


def _log_probabilities(model: LoadedModel, token_ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of every token after each of the window's.  # [tokens, vocab]"""
    batch = Batch(max_rows=_WINDOW, max_sequences=1, max_blocks=model.max_blocks)
    batch.append(token_ids.tolist(), position=0, blocks=list(range(model.max_blocks)), num_logits=_WINDOW)
    logits = model.decoder.forward(batch).numpy().astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    log_sums: NDArray[np.float64] = np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits - log_sums


if __name__ == "__main__":
    main()
