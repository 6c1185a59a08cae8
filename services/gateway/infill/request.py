"""InfillRequest: the body of POST /infill."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from outrider import GenerateOptions, Prompt
from services.gateway.generation.field_names import COMMON_NAMES
from services.gateway.generation.handling import OrMinusOne, PassedOver, refused_unless
from services.gateway.generation.part import Part
from services.gateway.generation.request import GenerationRequest

_UNNAMED = "tmp"  # the name that llama.cpp gives to a file without one


class ExtraFile(Part):
    """A file, or a part of one, that the model sees before the text with a gap."""

    filename: str | None = None
    text: str
    time: PassedOver[float] = None


def _without_infill(samplers: object) -> object:
    """Leave out llama.cpp's sampler of that name, which most editors name here."""
    return [name for name in samplers if name != "infill"] if isinstance(samplers, list) else samplers


class InfillRequest(GenerationRequest):
    """A text with a gap, and the options of the text that fills it."""

    rpc_names: ClassVar[Mapping[str, str]] = {
        **COMMON_NAMES,
        "prompt": "input_prefix",
        "prompt.text": "input_prefix",
        "prompt.infill": "input_suffix",
        "prompt.infill.files": "input_extra",
        "stop.max_tokens": "n_predict",
    }

    input_prefix: str = Field(description="The text before the gap.")
    input_suffix: str = Field(description="The text after the gap.")
    prompt: str | None = Field(None, description="More of the text before the gap, which follows `input_prefix`.")
    input_extra: list[ExtraFile] | None = None
    n_predict: OrMinusOne[int] = None
    stop: str | list[str] | None = None
    samplers: Annotated[Seq[str] | None, BeforeValidator(_without_infill)] = None
    n_indent: PassedOver[int] = None
    t_max_prompt_ms: PassedOver[float] = None
    t_max_predict_ms: PassedOver[float] = None
    response_fields: PassedOver[list[str]] = None
    id_slot: Annotated[Any, *refused_unless(-1)] = None

    def prompts(self) -> Seq[Prompt]:
        """Return the text before the gap."""
        return (self.input_prefix + (self.prompt or ""),)

    def options(self) -> GenerateOptions:
        """Return the common options and those of the gap."""
        options = super().options()
        options["suffix"] = self.input_suffix
        options["infill_files"] = [(file.filename or _UNNAMED, file.text) for file in self.input_extra or ()]
        options["max_tokens"] = self.n_predict
        options["stop"] = self.stop
        return options
