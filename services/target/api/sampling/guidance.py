"""Guidance: reads the negative prompt and the scale of classifier-free guidance from a request."""

from outrider.v1 import common_pb2
from services.engine.guidance import Guidance, shared_context
from services.engine.range import Range
from services.service.validation import Violations
from services.target.api.generation_request import GenerationRequest
from services.target.api.prompts import Room, read_text
from services.target.models.served_model import ServedModel

_SCALES = Range(minimum=0, maximum=100, excludes_minimum=True)


async def read_guidance(
    message: GenerationRequest, prompt: tuple[int, ...], model: ServedModel, found: Violations
) -> Guidance | None:
    """The guidance of a request with this prompt; None if it has no effect. Errors are added to `found`."""
    asked = message.guidance
    if not model.guides:
        found.add("guidance", "is set", "not to be, with a server that runs one sequence at once")
    if message.prompt.heal:
        found.add("guidance", "is set", "not to be, with prompt.heal")
    if asked.HasField("scale"):
        found.check_number("guidance.scale", asked.scale, _SCALES)
    negative = await _read_negative(asked, prompt, model, found)
    is_neutral = not asked.HasField("scale") or asked.scale == 1
    return None if is_neutral else Guidance(scale=asked.scale, negative_prompt=negative)


async def _read_negative(
    message: common_pb2.Guidance, prompt: tuple[int, ...], model: ServedModel, found: Violations
) -> tuple[int, ...]:
    most = shared_context(model.context_length) - len(prompt) - 2
    room = Room(max(most, 0), f"beside the prompt's {len(prompt)}, so that the context has room for one more of both")
    if message.HasField("negative_prompt"):
        field = "guidance.negative_prompt"
        return await read_text(message.negative_prompt, field, model, found, room, add_special_tokens=True)
    if room.most < 1:
        found.add("guidance.negative_prompt", "is not set, so that it is 1 token long", room)
    return prompt[-1:]
