"""Perplexity by llama.cpp, on the texts that ours is measured on, in formats that it has.

Run as a program by a Python that has llama_cpp, it reads {"model": …, "windows": [[ids]], …} and prints the perplexity.
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
    from services.bench.experiments.quality import windows_of
    from services.engine.text.tokenizer import Tokenizer

    windows = [ids.tolist() for ids in windows_of(Tokenizer.from_model(model), num_windows)]
    for name in names:
        weights, kv = name.split()
        job = {"model": str(model), "weights": weights, "kv": kv, "windows": windows, "scratch": str(scratch)}
        done = subprocess.run(
            [python, "-P", __file__], input=json.dumps(job), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"llama.cpp does not compute {name}: {done.stderr.strip()[-500:]}")
        yield f"| llama.cpp {weights} | {kv} | {float(done.stdout.splitlines()[-1]):.3f} | |"


def main() -> None:
    """Compute the perplexity of one format."""
    job: dict[str, Any] = json.load(sys.stdin)
    path = Path(job["model"])
    if job["weights"] in _QUANTISED:
        path = Path(job["scratch"]) / f"llama-{job['weights']}.gguf"
        _quantise(job["model"], path, _QUANTISED[job["weights"]])
    try:
        print(_perplexity(path, job["windows"], _KV[job["kv"]]))
    finally:
        if path != Path(job["model"]):
            path.unlink(missing_ok=True)


def _quantise(model: str, path: Path, kind: int) -> None:
    import llama_cpp

    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype, options.allow_requantize, options.nthread = kind, True, 1
    if failed := llama_cpp.llama_model_quantize(model.encode(), str(path).encode(), options):
        raise RuntimeError(f"llama.cpp cannot quantise {model}: {failed}")


def _perplexity(path: Path, windows: list[list[int]], kv: int) -> float:
    import llama_cpp
    import numpy as np

    length = max(map(len, windows))
    sizes = {"n_ctx": length, "n_batch": length, "n_ubatch": length}
    types = {"type_k": kv, "type_v": kv, "flash_attn": kv != _KV["f16"]}  # values are quantised only with it
    model = llama_cpp.Llama(str(path), **sizes, **types, logits_all=True, verbose=False)
    losses = []
    for ids in windows:
        model.reset()
        model.eval(ids)
        logits = np.array(model.scores[: len(ids) - 1])
        for row, right in zip(logits, ids[1:], strict=True):
            shifted = row.astype(np.float64) - row.max()
            losses.append(float(np.log(np.exp(shifted).sum()) - shifted[right]))
    return math.exp(sum(losses) / len(losses))


if __name__ == "__main__":
    main()
