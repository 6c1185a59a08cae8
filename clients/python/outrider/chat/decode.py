"""What follows in a message, from protobuf messages to Python values."""

from collections.abc import Iterable

from outrider.chat.message import ArgumentsDelta, ContentDelta, MessageDelta, ReasoningDelta, ToolCall, ToolCallStart
from outrider.v1 import common_pb2


def parse_deltas(messages: Iterable[common_pb2.MessageDelta]) -> tuple[MessageDelta, ...]:
    """Deltas; those of a kind that this version of the client does not know are left out."""
    return tuple(delta for message in messages if (delta := _delta(message)) is not None)


def _delta(message: common_pb2.MessageDelta) -> MessageDelta | None:
    match message.WhichOneof("delta"):
        case "reasoning":
            return ReasoningDelta(message.reasoning)
        case "content":
            return ContentDelta(message.content)
        case "tool_call_name":
            return ToolCallStart(message.tool_call_name)
        case "tool_call_arguments":
            return ArgumentsDelta(message.tool_call_arguments)
        case "tool_call":
            call = message.tool_call
            return ToolCall(call.name, call.arguments, call.id if call.HasField("id") else None)
    return None
