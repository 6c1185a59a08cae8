"""The native SamplingState of a sequence: how its tokens are drawn, from the parameters of its request."""

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
    """A state with no token generated yet; `masked_ids` are not drawn before `min_tokens` are, and `output` says what
    is told of each token. With a `guidance_scale`, each draw needs the logits behind a negative prompt too. With
    `forced`, none is drawn.

    Raises ValueError for parameters that nothing can be drawn with.
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
    """A state to draw what a request asks for, behind its prompt, whose last token may have been healed; with another
    `output` no more than that is told, and with `forced` no token is drawn.
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
    """A state to draw the last token of a prompt with, at its own position and after the tokens before it."""
    return new_sampling_state(params, prompt=prompt[:-1], min_tokens=1, masked_ids=healing.masked_ids, output=output)


def new_prompt_state(output: OutputOptions) -> SamplingState:
    """A state to tell of the tokens of a prompt with, under the model's unchanged logits."""
    neutral = SamplingParams(seed=0, temperature=0.0)
    return new_sampling_state(neutral, prompt=(), min_tokens=0, masked_ids=(), output=output, forced=True)
