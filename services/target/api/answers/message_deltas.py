"""Message deltas: an answer read as a message's parts (reasoning, content, tool calls), beside its text."""

from collections.abc import Iterable

from outrider.v1 import common_pb2, generation_pb2
from services.target.message.deltas import Content, Delta, Reasoning, ToolCall
from services.target.message.message_reader import MessageReader


def add_deltas(response: generation_pb2.StreamGenerateResponse, reader: MessageReader) -> None:
    """Add the deltas of a chunk's token ids to it, or those of the end."""
    match response.WhichOneof("event"):
        case "chunk":
            response.chunk.message_deltas.extend(map(_write_delta, reader.push(response.chunk.token_ids)))
        case "finished":
            response.finished.message_deltas.extend(map(_write_delta, reader.finish(response.finished.text)))


def _write_delta(delta: Delta) -> common_pb2.MessageDelta:
    match delta:
        case Reasoning(text):
            return common_pb2.MessageDelta(reasoning=text)
        case Content(text):
            return common_pb2.MessageDelta(content=text)
        case ToolCall(name, arguments):
            return common_pb2.MessageDelta(tool_call=common_pb2.ToolCall(name=name, arguments=arguments))


def write_message(deltas: Iterable[common_pb2.MessageDelta]) -> common_pb2.ChatMessage:
    """The whole message that the deltas make up."""
    message = common_pb2.ChatMessage(role="assistant")
    texts: dict[str, list[str]] = {"reasoning": [], "content": []}
    for delta in deltas:
        match kind := delta.WhichOneof("delta"):
            case "tool_call":
                message.tool_calls.append(delta.tool_call)
            case "reasoning" | "content":
                texts[kind].append(getattr(delta, kind))
    message.content = "".join(texts["content"])
    if texts["reasoning"]:
        message.reasoning_content = "".join(texts["reasoning"])
    return message
