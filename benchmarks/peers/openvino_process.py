"""OpenVINO GenAI with its continuous batching, on the CPU.

    python -m benchmarks.peers.openvino_process TARGET DRAFT THREADS

TARGET and DRAFT are folders that `optimum-cli export openvino` made. A pipeline with a draft always uses it, so there
are two pipelines, one with the draft and one without, each loaded when it is first needed. If the number of predictions
is left to the engine, its draft predicts for as long as it is confident enough.
"""

import sys
from functools import cache, partial
from typing import Any

import numpy as np
import openvino
import openvino_genai

from benchmarks.peers.arriving import Arriving
from benchmarks.peers.questions import serve

_SURE = 0.6  # least probability of the draft's next token
_BATCHED = 4096  # prompt tokens in a pass


def main() -> None:
    """Serve the questions on the standard input."""
    target, draft, threads = sys.argv[1:]
    properties = {
        "INFERENCE_PRECISION_HINT": "bf16",
        "INFERENCE_NUM_THREADS": int(threads),
        "ENABLE_CPU_PINNING": True,
        "PERFORMANCE_HINT": "LATENCY",
    }
    pipeline_of = cache(partial(_pipeline, target, draft, properties))
    serve(lambda prompts, num_predictions, num_tokens: _answer(pipeline_of, prompts, num_predictions, num_tokens))


def _answer(
    pipeline_of: Any,  # noqa: ANN401 - untyped
    prompts: list[list[int]],
    num_predictions: int | None,
    num_tokens: int,
) -> list[dict[str, object]]:
    config = openvino_genai.GenerationConfig(max_new_tokens=num_tokens, ignore_eos=True, do_sample=False)
    if num_predictions is None:
        config.assistant_confidence_threshold = _SURE
    elif num_predictions:
        config.num_assistant_tokens = num_predictions
    pipeline = pipeline_of(num_predictions != 0)
    streams = [
        (Arriving(), pipeline.add_request(index, openvino.Tensor(np.array([prompt], dtype=np.int64)), config))
        for index, prompt in enumerate(prompts)
    ]
    while pipeline.has_non_finished_requests():
        pipeline.step()
        for arriving, handle in streams:
            if handle.can_read():
                arriving.add([int(token_id) for each in handle.read().values() for token_id in each.generated_ids])
    return [arriving.reply(num_tokens) for arriving, _ in streams]


def _pipeline(target: str, draft: str, properties: dict[str, object], has_draft: bool) -> Any:  # noqa: ANN401
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 2  # GiB
    scheduler.max_num_batched_tokens = _BATCHED
    scheduler.enable_prefix_caching = False
    options = dict(properties)
    if has_draft:
        options["draft_model"] = openvino_genai.draft_model(draft, "CPU", **properties)
    return openvino_genai.ContinuousBatchingPipeline(target, scheduler, "CPU", options)


if __name__ == "__main__":
    main()
