"""Prompts: text, ids or a conversation, to the ids that the model sees."""

from collections.abc import Iterable

from outrider.v1 import common_pb2, generation_pb2
from services.engine.chat_template import ChatTemplateError
from services.rpc.served_model import ServedModel
from services.rpc.validation import Violations

_FORMS = "text, token_ids or chat"


def read_prompt(message: common_pb2.Prompt, model: ServedModel, found: Violations) -> tuple[int, ...]:
    """The ids of a prompt; what is wrong with it is added to `found`."""
    match message.WhichOneof("input"):
        case "text":
            field, ids = "prompt.text", _encode_text(message, "prompt.text", model, found)
        case "token_ids":
            field, ids = "prompt.token_ids.ids", tuple(message.token_ids.ids)
            found.check_token_ids(field, ids, model.config.vocab_size)
        case "chat":
            field, ids = "prompt.chat", _encode_chat(message.chat, "prompt.chat", model, found)
        case _:
            found.add("prompt", "is not set", _FORMS)
            return ()
    if ids is None:
        return ()
    if not ids:
        found.add(field, "is empty", "at least one token")
    elif field != "prompt.token_ids.ids" and max(ids) >= model.config.vocab_size:
        found.add(field, f"holds token {max(ids)}", f"tokens of the model, all below {model.config.vocab_size}")
    elif len(ids) >= model.context_length:
        room = f"at most {model.context_length - 1}, so that the context has room for one more"
        found.add(field, f"is {len(ids)} tokens long", room)
    return ids


def read_tokenize_input(message: generation_pb2.TokenizeRequest, model: ServedModel) -> tuple[int, ...]:
    """The ids of a text or a conversation; raises InvalidRequestError."""
    found = Violations()
    ids: tuple[int, ...] | None = ()
    match message.WhichOneof("input"):
        case "text":
            ids = _encode_text(message, "text", model, found) if message.text else ()
        case "chat":
            ids = _encode_chat(message.chat, "chat", model, found)
        case _:
            found.add("input", "is not set", "text or chat")
    found.raise_if_any()
    return ids or ()


def _encode_text(
    message: common_pb2.Prompt | generation_pb2.TokenizeRequest, field: str, model: ServedModel, found: Violations
) -> tuple[int, ...] | None:
    if not message.text:
        found.add(field, "is empty", "at least one character")
        return None
    add_special = message.add_special_tokens if message.HasField("add_special_tokens") else True
    return tuple(model.tokenizer.encode(message.text, add_special_tokens=add_special))


def _encode_chat(chat: common_pb2.Chat, field: str, model: ServedModel, found: Violations) -> tuple[int, ...] | None:
    if not model.chat_template.exists:
        found.add(field, "is set, but this model has no chat template", "text or token_ids")
        return None
    if not chat.messages:
        found.add(f"{field}.messages", "is empty", "at least one message")
        return None
    try:
        text = model.chat_template.render(_plain(chat.messages))
    except ChatTemplateError as error:
        found.add(f"{field}.messages", str(error)[:300], "what the template accepts")
        return None
    return tuple(model.tokenizer.encode(text, add_special_tokens=False))


def _plain(messages: Iterable[common_pb2.ChatMessage]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]
