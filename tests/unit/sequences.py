"""Sequences made of single bytes: token id n is the byte n, and END is the one special token."""

import functools
import json
from collections.abc import Iterable
from typing import Any

from services.engine.events import Chunk, PredictionSource, TokenRecord
from services.engine.grammar.grammar import Grammar
from services.engine.request import (
    CachePolicy,
    Loop,
    OutputOptions,
    Request,
    Share,
    SpeculationPolicy,
    StopConditions,
)
from services.engine.sampling_params import SamplingParams
from services.engine.text.healing import Healing
from services.engine.text.tokenizer import Tokenizer
from services.target.output.output_pipeline import OutputPipeline
from services.target.sequence.sequence import Sequence
from services.target.sequence.token_stream import TokenStream

END = 256
VOCAB_SIZE = 257
AUTO = SpeculationPolicy()
SHARED = CachePolicy()
ALONE = Share()


@functools.cache
def byte_tokenizer() -> Tokenizer:
    """Return a tokenizer whose ids are the bytes, and END."""
    end = {"id": END, "content": "<end>", "special": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    description = {
        "added_tokens": [end | flags],
        "model": {"type": "BPE", "byte_fallback": True, "vocab": vocabulary, "merges": []},
        "decoder": {"type": "ByteFallback"},
    }
    return Tokenizer(json.dumps(description))


def make_request(
    prompt: Iterable[int] = b"Hello",
    *,
    healing: Healing | None = None,
    received: Iterable[int] = (),
    grammar: Grammar | None = None,
    speculation: SpeculationPolicy = AUTO,
    cache: CachePolicy = SHARED,
    share: Share = ALONE,
    num_samples: int = 1,
    deadline: float | None = None,
    temperature: float = 0.0,
    max_tokens: int = 100,
    min_tokens: int = 0,
    stop_ids: Iterable[int] = (END,),
    stop_strings: Iterable[str] = (),
    include_stop: bool = False,
    time_limit: float | None = None,
    loop: Loop | None = None,
    pass_reports: bool = False,
    prompt_logprobs: bool = False,
    banned: Iterable[str] = (),
) -> Request:
    """Return a request with what the tests vary."""
    return Request(
        request_id="test",
        prompt=tuple(prompt),
        healing=healing,
        received=tuple(received),
        sampling=SamplingParams(seed=1, temperature=temperature, banned_strings=tuple(banned)),
        stops=StopConditions(
            max_tokens=max_tokens,
            min_tokens=min_tokens,
            token_ids=frozenset(stop_ids),
            strings=tuple(stop_strings),
            include_stop=include_stop,
            time_limit=time_limit,
            loop=loop,
        ),
        grammar=grammar,
        output=OutputOptions(pass_reports=pass_reports, prompt_logprobs=prompt_logprobs),
        speculation=speculation,
        cache=cache,
        share=share,
        num_samples=num_samples,
        deadline=deadline,
    )


def make_output(
    request: Request,
    stream: TokenStream | None = None,
    *,
    capacity: int = 1 << 20,
    context_length: int = 1 << 20,
    first_sample: Sequence | None = None,
    tokenizer: Tokenizer | None = None,
) -> OutputPipeline:
    """Return the output pipeline of a request's sequence, whose events go to `stream`; needs a running event loop."""
    stream = stream or make_stream(capacity)
    sequence = Sequence(request, stream, context_length=context_length, first_sample=first_sample)
    return OutputPipeline(sequence, tokenizer or byte_tokenizer())


def make_sequence(request: Request, stream: TokenStream | None = None, **options: Any) -> Sequence:
    """Return the sequence of a request, with what it has received; options are those of `make_output`."""
    return make_output(request, stream, **options).sequence


def draw(sequence: Sequence, tokens: bytes) -> int:
    """Let a sequence have drawn these tokens and its stream have got them; return how many they are."""
    sequence.text.tokens += tokens
    sequence.stream.put(Chunk(tokens.decode(), tuple(records_of(tokens))))
    return len(tokens)


def make_stream(capacity: int = 1 << 20) -> TokenStream:
    """Return a stream that wakes no producer when it has room again."""
    return TokenStream(capacity=capacity, on_drained=lambda: None)


def records_of(tokens: Iterable[int], num_predicted: int = 0) -> list[TokenRecord]:
    """Return the records of drawn tokens; the first `num_predicted` had been predicted."""
    return [
        TokenRecord(token_id, source=PredictionSource.DRAFT if i < num_predicted else None)
        for i, token_id in enumerate(tokens)
    ]
