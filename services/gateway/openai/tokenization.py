"""POST /tokenize and /detokenize: token ids of texts and texts of token ids, in vLLM's format."""

from starlette.requests import Request

from outrider import AsyncClient
from services.gateway.generation.request import Part
from services.gateway.generation.validation import parse
from services.gateway.generation.writer import Json
from services.gateway.openai.chat.messages import MessagesOrPrompt


class TokenizeRequest(Part):
    """A text or a conversation to tokenize."""

    model: str | None = None
    prompt: str | None = None
    messages: MessagesOrPrompt = None
    add_special_tokens: bool | None = None


class DetokenizeRequest(Part):
    """Token ids to turn into text."""

    model: str | None = None
    tokens: list[int]
    show_special_tokens: bool | None = None


async def tokenize(client: AsyncClient, _: Request, body: bytes) -> Json:
    """Return the ids, and the text of each; raises OutriderError and Problem."""
    request = parse(TokenizeRequest, body)
    prompt = [message.as_message() for message in request.messages or ()] or request.prompt
    assert prompt is not None
    encoding = await client.tokenize(prompt, model=request.model, add_special_tokens=request.add_special_tokens)
    tokens = [bytes_.decode(errors="replace") for bytes_ in encoding.token_bytes]
    return {"count": len(encoding.token_ids), "tokens": encoding.token_ids, "token_strs": tokens}


async def detokenize(client: AsyncClient, _: Request, body: bytes) -> Json:
    """Return the text; raises OutriderError and Problem."""
    request = parse(DetokenizeRequest, body)
    decoding = await client.detokenize(
        request.tokens, show_special_tokens=request.show_special_tokens, model=request.model
    )
    return {"prompt": decoding.text}
