"""Perplexity by llama.cpp, on the texts that ours is measured on, in formats that it has, and what these lose.

Run as a program by a Python that has llama_cpp, it reads {"model": …, "windows": [[ids]], …} and prints the perplexity
and the mean divergence from the file's own values, as we compute them in float32.
"""

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

_QUANTISED = {"Q8_0": 7, "Q4_0": 2}  # as llama.h numbers them; made of the file's own values
_KV = {"f16": 1, "q8_0": 8, "q4_0": 2}  # as ggml.h does
LLAMA_FORMATS = ("Q4_K_M f16", "Q8_0 f16", "Q4_0 f16", "Q4_K_M q8_0", "Q4_K_M q4_0")
"""The published file as it is, and requantised, each beside keys and values of some type."""


def llama_rows(python: Path, model: Path, names: Seq[str], *, num_windows: int, scratch: Path) -> Iterator[str]:
    """Yield the row of each of the formats."""
    from benchmarks.quality import Formats, expected_of

    with expected_of(model, num_windows=num_windows, base=Formats("f32", "f32")) as (windows, expected):
        job: dict[str, Any] = {"model": str(model), "expected": str(expected), "scratch": str(scratch)}
        job["windows"] = [ids.tolist() for ids in windows]
        for name in names:
            weights, kv = name.split()
            perplexity, divergence = _ask(python, {**job, "weights": weights, "kv": kv})
            yield f"| llama.cpp {weights} | {kv} | {perplexity:.3f} | {divergence:.4f} |"


def _ask(python: Path, job: dict[str, Any]) -> tuple[float, float]:
    done = subprocess.run([python, "-P", __file__], input=json.dumps(job), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"llama.cpp does not compute {job['weights']}: {done.stderr.strip()[-500:]}")
    perplexity, divergence = map(float, done.stdout.splitlines()[-1].split())
    return perplexity, divergence


def main() -> None:
    """Compute those of one format."""
    job: dict[str, Any] = json.load(sys.stdin)
    path = Path(job["model"])
    if job["weights"] in _QUANTISED:
        path = Path(job["scratch"]) / f"llama-{job['weights']}.gguf"
        _quantise(job["model"], path, _QUANTISED[job["weights"]])
    try:
        print(*_quality(path, job["windows"], job["expected"], _KV[job["kv"]]))
    finally:
        if path != Path(job["model"]):
            path.unlink(missing_ok=True)


def _quantise(model: str, path: Path, kind: int) -> None:
    import llama_cpp

    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype, options.allow_requantize, options.nthread = kind, True, 1
    if failed := llama_cpp.llama_model_quantize(model.encode(), str(path).encode(), options):
        raise RuntimeError(f"llama.cpp cannot quantise {model}: {failed}")


def _quality(path: Path, windows: list[list[int]], expected: str, kv: int) -> tuple[float, float]:
    import llama_cpp
    import numpy as np

    length = max(map(len, windows))
    sizes = {"n_ctx": length, "n_batch": length, "n_ubatch": length}
    types = {"type_k": kv, "type_v": kv, "flash_attn": kv != _KV["f16"]}  # values are quantised only with it
    model = llama_cpp.Llama(str(path), **sizes, **types, logits_all=True, verbose=False)
    losses, divergences = [], []
    for ids, wanted_rows in zip(windows, np.load(expected, mmap_mode="r"), strict=True):
        model.reset()
        model.eval(ids)
        for place, wanted in enumerate(wanted_rows):
            shifted = np.asarray(model.scores[place], np.float64) - model.scores[place].max()
            found = shifted - np.log(np.exp(shifted).sum())
            divergences.append(float((np.exp(wanted, dtype=np.float64) * (wanted - found)).sum()))
            losses += [-float(found[ids[place + 1]])] if place + 1 < length else []
    return math.exp(sum(losses) / len(losses)), sum(divergences) / len(divergences)


if __name__ == "__main__":
    main()
