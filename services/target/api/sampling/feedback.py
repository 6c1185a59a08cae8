"""Feedback: the options that Mirostat and adaptive-p, which are steered by earlier draws, cannot be combined with."""

from services.engine.sampling_params import SamplingParams
from services.service.validation import Violations
from services.target.api.generation_request import GenerationRequest


def check_feedback(message: GenerationRequest, sampling: SamplingParams, found: Violations) -> None:
    """Add the options that do not go with Mirostat or adaptive-p to `found`; one of the two is on.

    A continuation must reach the same sampler state from the received tokens alone. Banned strings take back tokens
    that changed the state but that a continuation does not receive; a healed prompt draws a token before the answer;
    and a continuation replays the received tokens by the rows of its own text, without those of a negative prompt.
    """
    if sampling.mirostat_mode == 0:
        field, value, allowed = "sampling.adaptive_target", f"is {sampling.adaptive_target:g}", "below 0"
    else:
        field, value, allowed = "sampling.mirostat_mode", f"is {sampling.mirostat_mode}", "0"
    if sampling.mirostat_mode and sampling.adaptive_target >= 0:
        found.add("sampling.adaptive_target", f"is {sampling.adaptive_target:g}", "below 0 with mirostat_mode")
    if message.sampling.banned_strings:
        found.add(field, value, f"{allowed} with banned_strings")
    if message.HasField("guidance"):
        found.add(field, value, f"{allowed} with guidance")
    if message.prompt.heal:
        found.add(field, value, f"{allowed} with prompt.heal")
