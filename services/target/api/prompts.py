"""Prompts: text, ids, conversations and negative prompts to the model's token ids, and token ids to text."""

import asyncio
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outrider.v1 import common_pb2, generation_pb2
from services.engine.guidance import Guidance, shared_context
from services.engine.range import Range
from services.engine.text.tokenizer import Tokenizer
from services.service.limits import MAX_MESSAGES
from services.service.validation import Violations
from services.target.api.chat import read_chat
from services.target.api.infill import read_infill
from services.target.api.request_messages import GenerationRequest
from services.target.models.served_model import ServedModel
from services.target.prompt.chat_template import ChatTemplateError
from services.target.prompt.infill_text import InfillText
from services.target.prompt.prompt_encoder import PromptError, PromptSource, PromptText, TooManyTokensError

_FORMS = "text, token_ids or chat"
_SCALES = Range(minimum=0, maximum=100, excludes_minimum=True)  # of guidance
_TOKENS_AT_ONCE = 1 << 13  # added to a message before other threads get a turn


@dataclass(frozen=True, slots=True)
class Room:
    """The most tokens that a text may have, and the reason."""

    most: int
    reason: str

    def __str__(self) -> str:
        return f"at most {self.most}, {self.reason}"


async def read_prompt(
    message: common_pb2.Prompt, model: ServedModel, found: Violations, *, session_tokens: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """The ids of a prompt, with those of its session before them; errors are added to `found`."""
    if session_tokens and _is_empty(message):
        return session_tokens
    room = _room_after(model, session_tokens)
    match form := message.WhichOneof("input"):
        case "token_ids":
            ids = await asyncio.to_thread(_read_ids, message.token_ids, "prompt", model, found, room)
            return session_tokens + ids
        case "text" | "chat":
            field = f"prompt.{form}"
            read = _read_gap if form == "text" and message.HasField("infill") else _read_source
            source = await asyncio.to_thread(read, message, field, model, found, special=not session_tokens)
            encoded = await _encode(source, field, model, found, room)
            _check_encoded(encoded, field, model, found)
            return session_tokens + (encoded or ())
    found.add("prompt", "is not set", _FORMS)
    return session_tokens


def _is_empty(message: common_pb2.Prompt) -> bool:
    """Whether a prompt adds nothing to its session."""
    return not (message.text or message.token_ids.ids or message.HasField("chat") or message.HasField("infill"))


async def read_tokenize_input(message: generation_pb2.TokenizeRequest, model: ServedModel) -> tuple[int, ...]:
    """The ids of a text or a conversation; raises InvalidRequestError."""
    found = Violations()
    ids: tuple[int, ...] | None = ()
    match form := message.WhichOneof("input"):
        case "text" if not message.text:
            pass
        case "text" | "chat":
            room = Room(model.context_length, "the context length")
            source = await asyncio.to_thread(_read_source, message, form, model, found)
            ids = await _encode(source, form, model, found, room)
        case _:
            found.add("input", "is not set", "text or chat")
    found.raise_if_any()
    return ids or ()


async def read_text(
    message: generation_pb2.TextToScore | generation_pb2.TextToEmbed | common_pb2.NegativePrompt,
    field: str,
    model: ServedModel,
    found: Violations,
    room: Room,
    *,
    add_special_tokens: bool,
) -> tuple[int, ...]:
    """The ids of a given text, to be scored, embedded or avoided; errors are added to `found`."""
    match message.WhichOneof("input"):
        case "token_ids":
            return await asyncio.to_thread(_read_ids, message.token_ids, field, model, found, room)
        case "text":
            field = f"{field}.text"
            source = _read_source_text(message.text, field, model, found, add_special_tokens=add_special_tokens)
            ids = await _encode(source, field, model, found, room)
            _check_encoded(ids, field, model, found)
            return ids or ()
    found.add(field, "is not set", "text or token_ids")
    return ()


def _room_after(model: ServedModel, session: tuple[int, ...]) -> Room:
    beside = f"beside the session's {len(session)}, " if session else ""
    return Room(model.context_length - 1 - len(session), f"{beside}so that the context has room for one more")


def _read_ids(
    message: common_pb2.TokenIds, parent: str, model: ServedModel, found: Violations, room: Room
) -> tuple[int, ...]:
    field = f"{parent}.token_ids.ids"
    if len(message.ids) > room.most:
        found.add(field, f"is {len(message.ids)} tokens long", room)
        return ()
    if not message.ids:
        found.add(field, "is empty", "at least one token")
    found.check_token_ids(field, message.ids, model.config.vocab_size)
    return tuple(message.ids)


async def _encode(
    source: PromptSource | None, field: str, model: ServedModel, found: Violations, room: Room
) -> tuple[int, ...] | None:
    """The ids; None if the source cannot be encoded, with the errors added to `found`."""
    if source is None:
        return None
    try:
        return await model.prompts.encode(source, most=room.most)
    except TooManyTokensError as error:
        found.add(field, str(error), room)
    except ChatTemplateError as error:
        found.add(f"{field}.messages", str(error)[:300], "what the template accepts")
    except PromptError as error:
        found.add(field, str(error), "a prompt that can be encoded")
    return None


def _check_encoded(ids: tuple[int, ...] | None, field: str, model: ServedModel, found: Violations) -> None:
    if ids is not None and not ids:
        found.add(field, "is empty", "at least one token")
    elif ids and max(ids) >= model.config.vocab_size:
        found.add(field, f"holds token {max(ids)}", f"tokens of the model, all below {model.config.vocab_size}")


def _read_source(
    message: common_pb2.Prompt | generation_pb2.TokenizeRequest,
    field: str,
    model: ServedModel,
    found: Violations,
    *,
    special: bool = True,
) -> PromptSource | None:
    """The text or conversation to encode; by default, a text gets special tokens if `special`."""
    if message.HasField("chat"):
        found.check_length(f"{field}.messages", message.chat.messages, MAX_MESSAGES)
        is_short = len(message.chat.messages) <= MAX_MESSAGES
        if is_short and _has_room(message.chat.ByteSize(), field, model, found):
            return read_chat(message.chat, field, model, found)
        return None
    add_special = message.add_special_tokens if message.HasField("add_special_tokens") else special
    return _read_source_text(message.text, field, model, found, add_special_tokens=add_special)


def _read_gap(
    message: common_pb2.Prompt, field: str, model: ServedModel, found: Violations, *, special: bool
) -> InfillText | None:
    source = read_infill(message, model, found, special=special)
    return source if source is not None and _has_room(source.num_bytes, field, model, found) else None


def _read_source_text(
    text: str, field: str, model: ServedModel, found: Violations, *, add_special_tokens: bool
) -> PromptText | None:
    if not text:
        found.add(field, "is empty", "at least one character")
        return None
    source = PromptText(text, add_special_tokens)
    return source if _has_room(source.num_bytes, field, model, found) else None


def _has_room(num_bytes: int, field: str, model: ServedModel, found: Violations) -> bool:
    """Whether a prompt could fit into the context if each of its tokens were the longest; if not, it is not walked."""
    longest = model.tokenizer.longest_token
    most = model.context_length * longest
    if num_bytes > most:
        held = f"what {model.context_length} tokens, the context, of {longest} bytes each, the longest, can hold"
        found.add(field, f"has {num_bytes} bytes", f"at most {most} bytes, {held}")
    return num_bytes <= most


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


async def read_expected(
    message: common_pb2.SpeculationPolicy, model: ServedModel, found: Violations
) -> tuple[int, ...]:
    """The tokens that an answer is expected to begin with, or to repeat parts of; errors are added to `found`."""
    for name in ("expected", "expected_text"):
        if message.HasField(name) and message.mode == common_pb2.SPECULATION_MODE_NEVER:
            found.add(f"speculation.{name}", "is set", "not to be, with SPECULATION_MODE_NEVER")
    field, room = "speculation.expected_text", Room(model.context_length, "the context length")
    if message.HasField("expected_text") and message.HasField("expected"):
        found.add(field, "is set", "only without expected")
    if not message.expected_text:
        ids = message.expected.ids
        return await asyncio.to_thread(_read_expected_ids, ids, model, found) if ids else ()
    source = _read_source_text(message.expected_text, field, model, found, add_special_tokens=False)
    encoded = await _encode(source, field, model, found, room)
    _check_encoded(encoded, field, model, found)
    return encoded or ()


def _read_expected_ids(ids: Seq[int], model: ServedModel, found: Violations) -> tuple[int, ...]:
    field = "speculation.expected.ids"
    within = tuple(found.within(field, ids, model.context_length))
    found.check_token_ids(field, within, model.config.vocab_size)
    return within


def write_tokens(token_ids: Seq[int], tokenizer: Tokenizer) -> generation_pb2.TokenizeResponse:
    """The message of encoded text: ids and each token's bytes."""
    response = generation_pb2.TokenizeResponse()
    for start in range(0, len(token_ids), _TOKENS_AT_ONCE):
        piece = token_ids[start : start + _TOKENS_AT_ONCE]
        response.token_ids.extend(piece)
        response.token_bytes.extend([tokenizer.token_bytes(token_id) for token_id in piece])
    return response


def detokenize(message: generation_pb2.DetokenizeRequest, model: ServedModel) -> generation_pb2.DetokenizeResponse:
    """Decode ids, at most as many as the context holds, which may take long; raises InvalidRequestError."""
    found = Violations()
    token_ids = found.within("token_ids", message.token_ids, model.context_length)
    found.check_token_ids("token_ids", token_ids, model.config.vocab_size)
    found.raise_if_any()
    tokenizer, show_special = model.tokenizer, message.show_special_tokens
    visible = (token_id for token_id in token_ids if show_special or not tokenizer.is_special(token_id))
    data = b"".join(map(tokenizer.token_bytes, visible))
    return generation_pb2.DetokenizeResponse(text=data.decode(errors="replace"), bytes=data)
