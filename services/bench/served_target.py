"""ServedTarget: Outrider itself, asked through its RPC by the Python client."""

import time
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor

from outrider import Client, GenerateOptions
from services.bench.answer import Answer, Arrival, rate_together
from services.bench.contender import AUTO, PLAIN, Way, fixed


class ServedTarget:
    """A running target; predictions are the draft's alone, since random prompts say nothing of the lookup."""

    def __init__(self, client: Client, *, has_draft: bool, draft_lengths: Seq[int]) -> None:
        self._client = client
        info = client.model_info()
        self.name = f"outrider {info.fingerprint_parts.weight_format}"
        self.ways = (PLAIN, AUTO, *map(fixed, draft_lengths)) if has_draft else (PLAIN,)

    def answer(self, prompt: Seq[int], way: Way, *, num_tokens: int) -> Answer:
        """Continue the prompt greedily by just so many tokens, whatever they are."""
        began = time.perf_counter()
        with self._client.stream(prompt, **_options(way, num_tokens)) as stream:
            arrivals = [Arrival(time.perf_counter(), len(chunk.token_ids)) for chunk in stream if chunk.token_ids]
            result = stream.result
        return Answer(
            token_ids=result.token_ids,
            first_token=arrivals[0].moment - began,
            num_first=1,
            decode=result.timings.decode,  # a reader that falls behind gets several passes' tokens at once
            tokens_per_pass=result.speculation.tokens_per_pass,
            arrivals=tuple(arrivals),
            result=result,
        )

    def total_rate(self, prompts: Seq[Seq[int]], way: Way, *, num_tokens: int) -> float | None:
        """Tokens per second of a stream for each prompt at once, while all of them decode; None if they never did."""
        with ThreadPoolExecutor(len(prompts)) as pool:
            answers = [pool.submit(self.answer, prompt, way, num_tokens=num_tokens) for prompt in prompts]
            return rate_together([answer.result() for answer in answers])


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
