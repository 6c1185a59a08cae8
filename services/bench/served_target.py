"""ServedTarget: Outrider itself, called through its RPC by the Python client."""

import time
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor

from outrider import Client, GenerateOptions
from services.bench.answer import Answer, Arrival
from services.bench.contender import AUTO, PLAIN, Way, fixed


class ServedTarget:
    """A running target. Without `lookup` only its draft or head predicts: random prompts measure no lookup fairly."""

    def __init__(self, client: Client, *, predicts: bool, draft_lengths: Seq[int], lookup: bool = False) -> None:
        self._client, self._lookup = client, lookup
        info = client.model_info()
        self.name = f"outrider {info.fingerprint_parts.weight_format}"
        self.ways = (PLAIN, AUTO, *map(fixed, draft_lengths)) if predicts or info.head else (PLAIN,)

    def answers(self, prompts: Seq[Seq[int]], way: Way, *, num_tokens: int) -> list[Answer]:
        """Continue all prompts concurrently and greedily, each by exactly `num_tokens` tokens, past any end of text."""
        with ThreadPoolExecutor(len(prompts)) as pool:
            return [*pool.map(lambda prompt: self._answer(prompt, way, num_tokens), prompts)]

    def _answer(self, prompt: Seq[int], way: Way, num_tokens: int) -> Answer:
        began = time.perf_counter()
        with self._client.stream(prompt, **self._options(way, num_tokens)) as stream:
            arrivals = [Arrival(time.perf_counter(), len(chunk.token_ids)) for chunk in stream if chunk.token_ids]
            result = stream.result
        return Answer(
            token_ids=result.token_ids,
            first_token=arrivals[0].moment - began,
            num_first=1,
            decode=result.timings.decode,  # the server's time: a slow reader gets several passes' tokens at once
            tokens_per_pass=result.speculation.tokens_per_pass,
            arrivals=tuple(arrivals),
            result=result,
        )

    def _options(self, way: Way, num_tokens: int) -> GenerateOptions:
        options = GenerateOptions(
            max_tokens=num_tokens,
            ignore_eos=True,
            temperature=0.0,
            pass_reports=True,
            prefix_cache=False,  # the same prompt is sent in all ways
            lookup=None if self._lookup else False,
        )
        match way.num_predictions:
            case None:
                options["speculation"] = "auto"
            case 0:
                options["speculation"] = "never"
            case number:
                options["speculation"], options["num_predictions"] = "always", number
        return options
