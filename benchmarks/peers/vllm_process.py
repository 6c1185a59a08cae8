"""vLLM on the CPU, in bf16.

    python -m benchmarks.peers.vllm_process TARGET DRAFT SEQUENCES POSITIONS

The number of predictions is fixed for an engine, so each number has an engine of its own, loaded when it is first
needed. VLLM_CPU_OMP_THREADS_BIND pins its threads; VLLM_CPU_KVCACHE_SPACE is the size of its KV cache in GiB.
"""

import sys
from functools import cache, partial
from typing import Any

import vllm

from benchmarks.peers.arriving import Arriving
from benchmarks.peers.questions import serve

_BATCHED = 2048  # tokens in a pass; vLLM warms up with as many


def main() -> None:
    """Serve the questions on the standard input."""
    target, draft, sequences, positions = sys.argv[1:]
    engine_of = cache(partial(_engine, target, draft, int(sequences), int(positions)))
    serve(lambda prompts, num_predictions, num_tokens: _answer(engine_of(num_predictions), prompts, num_tokens))


def _answer(engine: Any, prompts: list[list[int]], num_tokens: int) -> list[dict[str, object]]:  # noqa: ANN401
    greedy = vllm.SamplingParams(temperature=0, max_tokens=num_tokens, ignore_eos=True, detokenize=False)
    streams: dict[str, Arriving] = {}
    for index, prompt in enumerate(prompts):
        streams[str(index)] = Arriving()
        engine.add_request(str(index), {"prompt_token_ids": prompt}, greedy)
    while engine.has_unfinished_requests():
        for output in engine.step():
            arriving = streams[output.request_id]
            arriving.add([*output.outputs[0].token_ids[len(arriving) :]])
    return [arriving.reply(num_tokens) for arriving in streams.values()]


def _engine(target: str, draft: str, sequences: int, positions: int, num_predictions: int) -> Any:  # noqa: ANN401
    drafted = {"method": "draft_model", "model": draft, "num_speculative_tokens": num_predictions}
    return vllm.LLM(
        target,
        dtype="bfloat16",
        max_model_len=positions,
        max_num_seqs=sequences,
        max_num_batched_tokens=max(positions, _BATCHED),
        enable_prefix_caching=False,
        speculative_config=drafted if num_predictions else None,
    ).llm_engine


if __name__ == "__main__":
    main()
