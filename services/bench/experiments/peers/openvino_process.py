"""OpenVINO GenAI, with paged attention on the CPU.

    python -m services.bench.experiments.peers.openvino_process TARGET DRAFT THREADS

TARGET and DRAFT are folders that `optimum-cli export openvino` made. Two pipelines hold the target, one of them with
the draft, since a pipeline that has one uses it always.
"""

import sys
import time

import numpy as np
import openvino
import openvino_genai

from services.bench.experiments.peers.questions import serve


def main() -> None:
    """Load the pipelines and answer."""
    target, draft, threads = sys.argv[1:]
    properties = {
        "INFERENCE_PRECISION_HINT": "bf16",
        "INFERENCE_NUM_THREADS": int(threads),
        "ENABLE_CPU_PINNING": True,
        "PERFORMANCE_HINT": "LATENCY",
    }
    pipelines = {False: _pipeline(target, properties)}
    pipelines[True] = _pipeline(target, properties, draft_model=openvino_genai.draft_model(draft, "CPU", **properties))

    def answer(prompt: list[int], num_predictions: int, num_tokens: int) -> dict[str, object]:
        config = openvino_genai.GenerationConfig(max_new_tokens=num_tokens, ignore_eos=True, do_sample=False)
        if num_predictions:
            config.num_assistant_tokens = num_predictions
        ids = openvino.Tensor(np.array([prompt], dtype=np.int64))
        began = time.perf_counter()
        results = pipelines[num_predictions > 0].generate(ids, config)
        seconds = time.perf_counter() - began
        first = results.perf_metrics.get_ttft().mean / 1000
        return {
            "token_ids": [int(token_id) for token_id in results.tokens[0]],
            "first_token": first,
            "num_first": 1,
            "decode": seconds - first,
        }

    serve(answer)


def _pipeline(model: str, properties: dict[str, object], **options: object) -> openvino_genai.LLMPipeline:
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 1  # GiB
    scheduler.enable_prefix_caching = False
    return openvino_genai.LLMPipeline(model, "CPU", scheduler_config=scheduler, **properties, **options)


if __name__ == "__main__":
    main()
