"""ServedTarget: Outrider itself, asked through its RPC by the Python client."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from outrider import Client, GenerateOptions
from services.cli.bench.answer import Answer
from services.cli.bench.contender import AUTO, PLAIN, Way, fixed


class ServedTarget:
    """A running target; predictions are the draft's alone, since random prompts say nothing of the lookup."""

    def __init__(self, client: Client, *, has_draft: bool, draft_lengths: Sequence[int]) -> None:
        self._client = client
        info = client.model_info()
        self.name = f"outrider {info.fingerprint_parts.weight_format}"
        self.ways = (PLAIN, AUTO, *map(fixed, draft_lengths)) if has_draft else (PLAIN,)

    def answer(self, prompt: Sequence[int], way: Way, *, num_tokens: int) -> Answer:
        """Continue the prompt greedily by just so many tokens, whatever they are."""
        began = time.perf_counter()
        with self._client.stream(prompt, **_options(way, num_tokens)) as stream:
            arrivals = [time.perf_counter() for chunk in stream if chunk.token_ids]
            result = stream.result
        return Answer(
            token_ids=result.token_ids,
            first_token=arrivals[0] - began,
            num_first=1,
            decode=result.timings.decode,  # a reader that falls behind gets several passes' tokens at once
            tokens_per_pass=result.speculation.tokens_per_pass,
            gaps=tuple(later - earlier for earlier, later in pairwise(arrivals)),
            result=result,
        )

    def total_rate(self, prompts: Sequence[Sequence[int]], way: Way, *, num_tokens: int) -> float:
        """Tokens per second of as many streams at once as there are prompts, computing these included."""
        began = time.perf_counter()
        with ThreadPoolExecutor(len(prompts)) as pool:
            answers = [pool.submit(self.answer, prompt, way, num_tokens=num_tokens) for prompt in prompts]
            total = sum(len(answer.result().token_ids) for answer in answers)
        return total / (time.perf_counter() - began)


def _options(way: Way, num_tokens: int) -> GenerateOptions:
    options = GenerateOptions(max_tokens=num_tokens, ignore_eos=True, temperature=0.0, pass_reports=True, lookup=False)
    match way.num_predictions:
        case None:
            options["speculation"] = "auto"
        case 0:
            options["speculation"] = "never"
        case number:
            options["speculation"], options["num_predictions"] = "always", number
    return options
