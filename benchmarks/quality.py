"""What the storage formats cost in quality: `python -m benchmarks.quality`.

For each format of weights and KV cache it prints the perplexity of the demo target on text that it was not trained on
(the files of Python's own library in models/demo/heldout.txt), and the mean Kullback-Leibler divergence of its
distributions from those of bf16.
"""

import argparse
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.distributions import divergences, log_probabilities
from services.engine.config import CPU_KV_FORMATS, CPU_WEIGHT_FORMATS, EngineConfig, resolve_isa, resolve_threads
from services.engine.decoder.native import Batch
from services.engine.loaded_model import LoadedModel
from services.engine.text.tokenizer import Tokenizer

_DEMO = Path(__file__).parents[1] / "models" / "demo"
_WINDOW = 512  # tokens
Window = NDArray[np.int64]


@dataclass(frozen=True)
class Formats:
    """The formats of a model's weights and KV cache."""

    weights: str
    kv: str


_BASE = Formats("bf16", "bf16")


@dataclass(frozen=True)
class Quality:
    """The quality of a model in some formats."""

    perplexity: float
    divergence: float  # from the base format, in nats per token


def main() -> None:
    """Print the table of perplexities and divergences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=_DEMO / "target", metavar="DIR", help="(the demo target)")
    parser.add_argument("--windows", type=int, default=40, metavar="N", help="windows of 512 tokens (%(default)s)")
    parser.add_argument("--each", action="store_true", help="vary weights and KV cache one at a time")
    arguments = parser.parse_args()
    print("| weights | KV | perplexity | KL from bf16 (nats) |\n| --- | --- | --- | --- |")
    formats = [Formats(weights, kv) for weights in CPU_WEIGHT_FORMATS for kv in CPU_KV_FORMATS]
    chosen = [one for one in formats if not arguments.each or _BASE.weights == one.weights or _BASE.kv == one.kv]
    for one, quality in measure(arguments.model, chosen, num_windows=arguments.windows):
        print(f"| {one.weights} | {one.kv} | {quality.perplexity:.3f} | {quality.divergence:.6f} |", flush=True)


def measure(
    model: Path, formats: Iterable[Formats], *, num_windows: int, base: Formats = _BASE
) -> Iterator[tuple[Formats, Quality]]:
    """Measure one format after the other, so that only one model is in memory at a time."""
    with expected_of(model, num_windows=num_windows, base=base) as (windows, path):
        expected = np.load(path, mmap_mode="r")
        for one in formats:
            yield one, _compare(None if one == base else _load(model, one), windows, expected)


@contextmanager
def expected_of(model: Path, *, num_windows: int, base: Formats = _BASE) -> Iterator[tuple[list[Window], Path]]:
    """Yield the windows, and a file of the base's log-probabilities.  # [windows, tokens, vocab]"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "expected.npy"
        loaded = _load(model, base)
        windows = [*windows_of(loaded.tokenizer, num_windows)]
        shape = (len(windows), _WINDOW, loaded.checkpoint.config.vocab_size)
        expected = np.lib.format.open_memmap(path, "w+", np.float32, shape)
        for index, window in enumerate(windows):
            expected[index] = _log_probabilities(loaded, window)
        del loaded
        yield windows, path


def _compare(model: LoadedModel | None, windows: Seq[Window], expected: NDArray[np.float32]) -> Quality:
    """Compare a model with the base; without a model, the base with itself."""
    losses, lost = [], []
    for window, wanted in zip(windows, expected, strict=True):
        found = _log_probabilities(model, window) if model else wanted
        losses.append(float(-np.take_along_axis(found[:-1], window[1:, None], axis=1).mean()))
        lost.append(divergences(wanted, found).mean())
    return Quality(float(np.exp(np.mean(losses))), float(np.mean(lost)))


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


def windows_of(tokenizer: Tokenizer, count: int) -> Iterator[Window]:
    """Yield the token ids of `count` whole windows, from the files in turn.  # each [tokens]"""
    library = Path(sysconfig.get_paths()["stdlib"])
    names = (_DEMO / "heldout.txt").read_text().split()
    texts = [np.array(tokenizer.encode((library / name).read_text())) for name in names]
    for start in range(0, max(map(len, texts)), _WINDOW):
        for ids in texts:
            if start + _WINDOW <= len(ids) and count > 0:
                count -= 1
                yield ids[start : start + _WINDOW]


def _log_probabilities(model: LoadedModel, token_ids: Window) -> NDArray[np.float32]:
    """Return the log-probabilities of the token after each one of the window.  # [tokens, vocab]"""
    batch = Batch(max_rows=_WINDOW, max_sequences=1, max_blocks=model.max_blocks)
    batch.append(token_ids.tolist(), position=0, blocks=list(range(model.max_blocks)), num_logits=_WINDOW)
    return log_probabilities(model.decoder.forward(batch).logits.numpy())


if __name__ == "__main__":
    main()
