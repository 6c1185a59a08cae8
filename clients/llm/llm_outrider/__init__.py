"""Outrider as a model of `llm`: `llm -m outrider PROMPT`."""

from collections.abc import Iterator
from typing import Any, get_type_hints

import llm
from llm.parts import StreamEvent, TextPart
from pydantic import Field, create_model

from outrider import (
    Client,
    ContentDelta,
    GenerateOptions,
    Message,
    OutriderError,
    Prompt,
    ReasoningDelta,
    Result,
    Stream,
)

_NOT_HERE = ("num_samples", "prompt_logprobs", "message_deltas", "add_generation_prompt")
_ADDRESS = "localhost:50051"
_KINDS = (int | None, float | None, bool | None)
_OPTIONS: dict[str, Any] = {
    **{name: (hint, None) for name, hint in get_type_hints(GenerateOptions).items() if hint in _KINDS},
    "stop": (str | None, Field(None, description="Ends the answer before this text")),
    "speculation": (str | None, Field(None, description="never, auto or always")),
    # Without a default here, which llm would prefer to the one that `llm models options set` has stored.
    "address": (str | None, Field(None, description=f"HOST:PORT of the server; several with commas ({_ADDRESS})")),
}


@llm.hookimpl
def register_models(register: Any) -> None:  # noqa: ANN401 - llm does not say what it is
    """Make the model known to llm."""
    register(Outrider())


class Outrider(llm.Model):
    """The model that a server holds."""

    model_id = "outrider"
    can_stream = True
    supports_schema = True
    Options = create_model(
        "Options", __base__=llm.Options, **{name: _OPTIONS[name] for name in _OPTIONS if name not in _NOT_HERE}
    )

    def execute(
        self,
        prompt: llm.Prompt,
        stream: bool,  # noqa: ARG002 - llm joins what is streamed where it is to be whole
        response: llm.Response,
        conversation: llm.Conversation | None,  # noqa: ARG002 - prompt.messages has it
    ) -> Iterator[Any]:
        """Yield the answer as it is written; raises llm.ModelError for what the server refuses."""
        options = prompt.options.model_dump(exclude_none=True)
        addresses = options.pop("address", _ADDRESS).split(",")
        if prompt.schema:
            options["json_schema"] = prompt.schema
        try:
            with Client(*addresses, token=llm.get_key(alias="outrider", env="OUTRIDER_TOKEN")) as client:
                is_chat = client.model_info().has_chat_template
                said: Prompt = _messages(prompt) if is_chat else _text(prompt)
                with client.stream(said, **options, message_deltas=True if is_chat else None) as answer:
                    yield from _deltas(answer) if is_chat else (chunk.text for chunk in answer)
                _tell(response, answer.result)
        except (OutriderError, TypeError, ValueError) as error:
            raise llm.ModelError(str(error)) from error


def _deltas(answer: Stream) -> Iterator[Any]:
    for chunk in answer:
        for delta in chunk.message_deltas:
            if isinstance(delta, ReasoningDelta):
                yield StreamEvent(type="reasoning", chunk=delta.text)
            elif isinstance(delta, ContentDelta):
                yield delta.text


def _text(prompt: llm.Prompt) -> str:
    """What is to be continued by a model that knows no conversations; raises ValueError where it is to know one."""
    if prompt.system or len(prompt.messages) > 1:
        raise ValueError("the model has no chat template, so it takes neither a system prompt nor earlier turns")
    return str(prompt.prompt)


def _messages(prompt: llm.Prompt) -> list[Message]:
    """The conversation so far, as text only."""
    return [
        Message(message.role, "".join(part.text for part in message.parts if isinstance(part, TextPart)))
        for message in prompt.messages
    ]


def _tell(response: llm.Response, result: Result) -> None:
    speculation = result.speculation
    response.set_resolved_model(result.started.model)
    response.set_usage(input=result.usage.prompt_tokens, output=result.usage.completion_tokens)
    response.response_json = {
        "seed": result.started.seed,
        "finish_reason": str(result.finish_reason),
        "fingerprint": result.started.fingerprint,
        "tokens_per_pass": speculation.tokens_per_pass,
        "predicted": speculation.predicted,
        "accepted": speculation.accepted,
    }
