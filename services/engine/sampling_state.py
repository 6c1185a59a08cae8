"""The native SamplingState of a sequence: how its tokens are drawn, from the parameters of its request."""

from collections.abc import Collection
from collections.abc import Sequence as Tokens

import numpy as np

from services.engine.healing import Healing
from services.engine.native import SamplingState
from services.engine.request import SamplingParams


def new_sampling_state(
    params: SamplingParams,
    *,
    prompt: Tokens[int],
    min_tokens: int,
    masked_ids: Collection[int],
    logprobs: bool = False,
    num_candidates: int = 0,
) -> SamplingState:
    """A state with no token generated yet; `masked_ids` are not drawn before `min_tokens` are.

    Raises ValueError for parameters that nothing can be drawn with.
    """
    return SamplingState(
        prompt=np.asarray(prompt, dtype=np.int32),
        seed=params.seed,
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        repetition_penalty=params.repetition_penalty,
        frequency_penalty=params.frequency_penalty,
        presence_penalty=params.presence_penalty,
        logit_bias=sorted(params.logit_bias.items()),
        min_tokens=min_tokens,
        stop_ids=sorted(masked_ids),
        logprobs=logprobs,
        num_candidates=num_candidates,
    )


def new_healing_state(params: SamplingParams, *, prompt: Tokens[int], healing: Healing) -> SamplingState:
    """A state to draw the last token of a prompt with, at its own position and after the tokens before it."""
    return new_sampling_state(params, prompt=prompt[:-1], min_tokens=1, masked_ids=healing.masked_ids)
