"""AnswerReader: completes the responses of one answer by what is read from its token ids."""

import asyncio

from outrider.v1 import common_pb2, generation_pb2
from services.engine.request import Request
from services.target.api.chat import callable_tools, schema_of
from services.target.api.request_messages import GenerationRequest
from services.target.message.argument_types import ArgumentTypes
from services.target.message.deltas import Arguments, CallStart, Content, Delta, Reasoning, ToolCall
from services.target.message.message_reader import MessageReader
from services.target.message.reasoning_counter import ReasoningCounter
from services.target.message.thought import PromptThought, thought_of
from services.target.message.tool_grammar import is_with_form
from services.target.models.served_model import ServedModel

_FORMS = ("json_schema", "regex", "choice")  # a grammar in Lark may have calls anywhere, as those of tools have


class AnswerReader:
    """Adds the parts of a message, if they are requested, and the number of reasoning tokens."""

    def __init__(
        self, request: Request, model: ServedModel, thought: PromptThought, message: MessageReader | None
    ) -> None:
        """Reads the received part of the answer first, which may take long; `message` has read it."""
        self._counter = ReasoningCounter(model.tokenizer, model.syntax.reasoning, thought)
        self._counter.push(request.received)
        self._message = message

    def complete(self, response: generation_pb2.StreamGenerateResponse) -> None:
        """Complete the next response of the answer."""
        match response.WhichOneof("event"):
            case "chunk":
                self._counter.push(response.chunk.token_ids)
                if self._message is not None:
                    deltas = self._message.push(response.chunk.token_ids)
                    response.chunk.message_deltas.extend(map(_write_delta, deltas))
            case "finished":
                response.finished.usage.reasoning_tokens = self._counter.count
                if self._message is not None:
                    deltas = self._message.finish(response.finished.text)
                    response.finished.message_deltas.extend(map(_write_delta, deltas))


async def answer_readers(message: GenerationRequest, request: Request, model: ServedModel) -> list[AnswerReader]:
    """A reader of each sample's answer."""

    def read() -> list[AnswerReader]:
        thought = thought_of(request.prompt, model.tokenizer, model.syntax)
        return [
            AnswerReader(request, model, thought, _message_reader(message, request, model, thought))
            for _ in range(request.num_samples)
        ]

    return await asyncio.to_thread(read)  # the prompt and the received tokens may be many


def _message_reader(
    message: GenerationRequest, request: Request, model: ServedModel, thought: PromptThought
) -> MessageReader | None:
    """A reader of the parts of a message, if they are requested."""
    if not message.output.message_deltas:
        return None
    types = ArgumentTypes({tool.name: schema_of(tool) for tool in callable_tools(message)})
    has_form = message.grammar.WhichOneof("kind") in _FORMS or is_with_form(message.grammar.lark)
    return MessageReader(request, model.tokenizer, model.syntax, types, thought, has_form=has_form)


def _write_delta(delta: Delta) -> common_pb2.MessageDelta:
    match delta:
        case Reasoning(text):
            return common_pb2.MessageDelta(reasoning=text)
        case Content(text):
            return common_pb2.MessageDelta(content=text)
        case CallStart(name):
            return common_pb2.MessageDelta(tool_call_name=name)
        case Arguments(text):
            return common_pb2.MessageDelta(tool_call_arguments=text)
        case ToolCall(name, arguments):
            return common_pb2.MessageDelta(tool_call=common_pb2.ToolCall(name=name, arguments=arguments))
