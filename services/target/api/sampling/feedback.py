"""Feedback: where samplers that are steered by the tokens drawn before cannot be, or not by what they are asked for."""

from services.engine.sampling_params import SamplingParams
from services.service.validation import Violations
from services.target.api.generation_request import GenerationRequest


def check_feedback(message: GenerationRequest, sampling: SamplingParams, found: Violations) -> None:
    """Nothing where Mirostat and adaptive-p are off.

    What takes tokens back leaves the distributions behind them to what was taken back, which a continuation is not
    told; a healed prompt has a token of its own to draw first; and what a continuation received is judged by the rows
    of its own text alone, without those behind a negative prompt.
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
