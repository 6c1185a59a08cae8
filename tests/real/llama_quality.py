"""Perplexity by llama.cpp, on the texts that ours is measured on, in formats that it has.

Run as a program by a Python that has llama_cpp, it reads {"model": …, "windows": [[ids]]} and prints the perplexity.
"""

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_QUANTISED = {"Q8_0": 7, "Q4_0": 2}  # as llama.h numbers them; made of the file's own values
_AS_IT_IS = "Q4_K_M"


def llama_formats(python: Path | None, cache: Path, *, num_windows: int) -> Iterator[tuple[str, float]]:
    """The file as it was published, and requantised; nothing where there is no such Python."""
    if python is None:
        return
    from services.bench.experiments.quality import windows_of
    from services.engine.text.tokenizer import Tokenizer
    from tests.real.fetch import fetch
    from tests.real.published import TARGET

    published = fetch(TARGET, cache)
    windows = [ids.tolist() for ids in windows_of(Tokenizer.from_model(published), num_windows)]
    for name in (_AS_IT_IS, *_QUANTISED):
        job = {
            "model": str(published),
            "format": name,
            "windows": windows,
            "scratch": str(cache / f"llama-{name}.gguf"),
        }
        done = subprocess.run(
            [python, "-P", __file__], input=json.dumps(job), capture_output=True, text=True, check=True
        )
        yield name, float(done.stdout.splitlines()[-1])


def main() -> None:
    """Compute the perplexity of one format."""
    import llama_cpp
    import numpy as np

    job: dict[str, Any] = json.load(sys.stdin)
    path = Path(job["model"])
    if job["format"] in _QUANTISED:
        path = Path(job["scratch"])
        options = llama_cpp.llama_model_quantize_default_params()
        options.ftype, options.allow_requantize = _QUANTISED[job["format"]], True
        llama_cpp.llama_model_quantize(job["model"].encode(), str(path).encode(), options)
    length = max(map(len, job["windows"]))
    model = llama_cpp.Llama(str(path), n_ctx=length, n_batch=length, n_ubatch=length, logits_all=True, verbose=False)
    losses = []
    for ids in job["windows"]:
        model.reset()
        model.eval(ids)
        logits = np.array(model.scores[: len(ids) - 1], dtype=np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        right = logits[np.arange(len(ids) - 1), ids[1:]]
        losses.append(float((np.log(np.exp(logits).sum(axis=1)) - right).mean()))
    if path != Path(job["model"]):
        path.unlink()
    print(math.exp(sum(losses) / len(losses)))


if __name__ == "__main__":
    main()
