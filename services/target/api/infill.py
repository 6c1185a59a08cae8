"""Infill: reads prompts with a gap (fill in the middle), which need marks in the model's tokenizer."""

from outrider.v1 import common_pb2
from services.service.limits import LIMITS
from services.service.validation import Violations
from services.target.api.request_messages import GenerationRequest
from services.target.models.served_model import ServedModel
from services.target.prompt.infill_text import InfillText

FIELD = "prompt.infill"


def read_infill(
    message: common_pb2.Prompt, model: ServedModel, found: Violations, *, special: bool
) -> InfillText | None:
    """The prompt of a text with a gap; None if the model cannot have it, with the errors added to `found`."""
    infill, marks = message.infill, model.tokenizer.infill_marks
    if message.heal:
        found.add("prompt.heal", "is true", f"false, or not set, with {FIELD}")
    if marks is None:
        found.add(FIELD, "is set", "not to be: the model's tokenizer has no marks for filling in the middle")
        return None
    if infill.files and marks.file is None:
        found.add(f"{FIELD}.files", "is set", "not to be: the model's tokenizer has no mark for files")
        return None
    files = found.within(f"{FIELD}.files", infill.files, LIMITS.max_infill_files)
    return InfillText.of(
        message.text,
        infill.suffix,
        [(file.name, file.text) for file in files],
        marks,
        add_special_tokens=message.add_special_tokens if message.HasField("add_special_tokens") else special,
    )


def read_infill_ends(message: GenerationRequest, model: ServedModel, found: Violations) -> frozenset[int]:
    """The tokens that end a text which fills a gap, beside the end-of-sequence tokens.

    A gap beside another form of prompt than text is refused, except in a continuation; errors are added to `found`.
    """
    form = message.prompt.WhichOneof("input")
    is_continued = form == "token_ids" and message.HasField("continue_from")
    if form != "text" and not is_continued:
        found.add(FIELD, "is set", "only with prompt.text, or in a continuation")
    marks = model.tokenizer.infill_marks
    return frozenset() if marks is None else marks.ends
