"""Thinking: reads a request's limit for the model's thinking."""

from services.engine.range import COUNT
from services.engine.thinking_budget import ThinkingBudget
from services.service.validation import Violations
from services.target.api.generation_request import GenerationRequest
from services.target.message.thought import PromptThought, thought_of
from services.target.models.served_model import ServedModel

_FIELD = "stop.max_thinking_tokens"


def read_thinking(
    message: GenerationRequest,
    prompt: tuple[int, ...],
    model: ServedModel,
    found: Violations,
) -> ThinkingBudget | None:
    """The budget of the answer's thinking; None if the prompt has ended it already. Errors are added to `found`."""
    if message.stop.max_thinking_tokens < 0:
        found.add(_FIELD, f"is {message.stop.max_thinking_tokens}", COUNT)
        return None
    if message.prompt.heal:
        found.add(_FIELD, "is set", "not to be, with prompt.heal")
    if (marks := model.syntax.reasoning) is None:
        problem = "is set, but this model's chat template shows no marks of thoughts that are known"
        found.add(_FIELD, problem, "not to be set; or a server with --reasoning-parser")
        return None
    end_ids = model.tokenizer.encode(marks.end, add_special_tokens=False)
    if marks.end.encode() not in b"".join(map(model.tokenizer.token_bytes, end_ids)):
        found.add(_FIELD, f"is set, but the vocabulary cannot spell {marks.end}", "not to be set")
    thought = thought_of(prompt, model.tokenizer, model.syntax)
    if thought is PromptThought.CLOSED:
        return None
    return ThinkingBudget(
        max_tokens=message.stop.max_thinking_tokens,
        is_begun=thought is PromptThought.OPEN,
        start=marks.start.encode(),
        end=marks.end.encode(),
        end_ids=tuple(end_ids),
        tokenizer=model.tokenizer,
        vocab_size=model.config.vocab_size,
    )
