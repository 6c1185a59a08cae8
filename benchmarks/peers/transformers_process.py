"""Hugging Face transformers in bf16.

    python -m benchmarks.peers.transformers_process TARGET DRAFT THREADS DEVICE

On a CPU it runs eagerly. On a GPU it decodes with a static cache and compiled, except with a draft, for which that is
not supported. Predictions are those of assisted generation, with a constant number of them. With OMP_PROC_BIND=true and
OMP_PLACES=cores in the environment its threads stay on their cores.
"""

import sys
import time
from typing import Any

import torch
import transformers
from transformers.generation.streamers import BaseStreamer

from benchmarks.peers.questions import serve


class Arrivals(BaseStreamer):  # type: ignore[misc]
    """Records when tokens arrive, and how many; the first entry is the prompt."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.counts: list[int] = []

    def put(self, value: torch.Tensor) -> None:
        """Record tokens that have arrived now."""
        self.times.append(time.perf_counter())
        self.counts.append(value.numel())

    def end(self) -> None:
        """Do nothing: no further tokens will arrive."""


class Passes:
    """Counts the forward passes of the model whose hook is `add`."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, *_: object) -> None:
        self.count += 1


def _load(folder: str, device: str) -> Any:  # noqa: ANN401
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval().to(device)


def main() -> None:
    """Load both models and serve the questions on the standard input."""
    target_folder, draft_folder, threads, device = sys.argv[1:]
    torch.set_num_threads(int(threads))
    target, draft = _load(target_folder, device), _load(draft_folder, device)
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0

    def answer(prompts: list[list[int]], num_predictions: int, num_tokens: int) -> list[dict[str, object]]:
        [prompt] = prompts  # it cannot answer several concurrently
        draft.generation_config.num_assistant_tokens = num_predictions
        ids = torch.tensor([prompt], device=device)
        is_compiled = device != "cpu" and not num_predictions
        arrivals, passes = Arrivals(), Passes()
        hooks = [] if is_compiled else [target.register_forward_hook(passes.add)]  # a count would recompile the graph
        began = time.perf_counter()
        output = target.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=num_tokens,
            min_new_tokens=num_tokens,
            pad_token_id=0,
            cache_implementation="static" if is_compiled else None,
            assistant_model=draft if num_predictions else None,
            streamer=arrivals,
        )
        for hook in hooks:
            hook.remove()
        _, first, *_ = arrivals.times
        reply = {
            "token_ids": output[0, len(prompt) :].tolist(),
            "first_token": first - began,
            "num_first": arrivals.counts[1],
            "decode": arrivals.times[-1] - first,
            "tokens_per_pass": num_tokens / passes.count if hooks else 1.0,
        }
        return [reply]

    serve(answer)


if __name__ == "__main__":
    main()
