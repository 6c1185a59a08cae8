"""Makes the native SamplingState of a sequence, with its logit_bias and penalties, from its request's parameters."""

from collections.abc import Collection
from collections.abc import Sequence as Seq

import numpy as np

from services.engine.decoder.native import SamplingState
from services.engine.request import OutputOptions, Request
from services.engine.sampling_params import SAMPLING_NUMBERS, SamplingParams
from services.engine.text.healing import Healing

_NOTHING = OutputOptions()


def new_sampling_state(
    params: SamplingParams,
    *,
    prompt: Seq[int],
    min_tokens: int,
    masked_ids: Collection[int],
    output: OutputOptions = _NOTHING,
    guidance_scale: float = 1.0,
    forced: bool = False,
) -> SamplingState:
    """Return a state without generated tokens.

    `masked_ids` are not sampled before there are `min_tokens` tokens, and `output` selects the figures of each token.
    With a `guidance_scale` other than 1, sampling also needs the logits after a negative prompt. With `forced`, no
    token is sampled. Raises ValueError for a parameter out of range.
    """
    return SamplingState(
        prompt=np.asarray(prompt, dtype=np.int32),
        seed=params.seed,
        samplers=params.samplers,
        logit_bias=sorted(params.logit_bias.items()),
        min_tokens=min_tokens,
        stop_ids=sorted(masked_ids),
        suppressed_ids=params.suppressed_ids,
        begin_suppressed_ids=params.begin_suppressed_ids,
        bad_words=params.bad_words,
        dry_breaker_ids=params.dry_breaker_ids,
        logprobs=output.logprobs,
        num_candidates=output.num_candidates,
        rank=output.rank,
        entropy=output.entropy,
        guidance_scale=guidance_scale,
        forced=forced,
        **{number.name: getattr(params, number.name) for number in SAMPLING_NUMBERS},
    )


def new_request_state(
    request: Request, prompt: Seq[int], *, output: OutputOptions | None = None, forced: bool = False
) -> SamplingState:
    """Return the state of a request after its prompt, whose last token may have been healed.

    `output` replaces the request's own options; with `forced` no token is sampled.
    """
    return new_sampling_state(
        request.sampling,
        prompt=prompt,
        min_tokens=request.stops.min_tokens,
        masked_ids=request.stops.token_ids,
        output=request.output if output is None else output,
        forced=forced,
        guidance_scale=1.0 if request.guidance is None else request.guidance.scale,
    )


def new_healing_state(
    params: SamplingParams, *, prompt: Seq[int], healing: Healing, output: OutputOptions
) -> SamplingState:
    """Return a state to sample the last token of a prompt again, at its own position."""
    return new_sampling_state(params, prompt=prompt[:-1], min_tokens=1, masked_ids=healing.masked_ids, output=output)


def new_prompt_state(output: OutputOptions) -> SamplingState:
    """Return a state to report on the tokens of a prompt, from the model's unchanged logits."""
    neutral = SamplingParams(seed=0, temperature=0.0)
    return new_sampling_state(neutral, prompt=(), min_tokens=0, masked_ids=(), output=output, forced=True)
