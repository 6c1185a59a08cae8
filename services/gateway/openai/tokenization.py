"""POST /tokenize and /detokenize: token ids of texts and texts of token ids, in vLLM's format."""

from pydantic import Field
from starlette.requests import Request

from outrider import AsyncClient, ChatOptions, OutriderError
from services.gateway.generation.field_names import api_name, problem_of
from services.gateway.generation.handling import Refused
from services.gateway.generation.part import Part
from services.gateway.generation.template_fields import ConversationFields
from services.gateway.generation.validation import parse
from services.gateway.generation.writer import Json
from services.gateway.openai.chat.messages import MessagesOrPrompt, Tool
from services.gateway.openai.chat.request import ChatRequest


class TokenizeRequest(ConversationFields):
    """A text or a conversation to tokenize."""

    model: str | None = None
    prompt: str | None = None
    messages: MessagesOrPrompt = None
    add_special_tokens: bool | None = None
    tools: list[Tool] | None = None
    return_token_strs: bool | None = Field(None, description="By default true.")
    chat_template: Refused = None

    def chat_options(self) -> ChatOptions:
        """Return the client's options for turning a conversation into a prompt."""
        options = self.template_options()
        if self.tools:
            options["tools"] = [tool.function.model_dump(exclude_none=True) for tool in self.tools]
        return options

    def name_of(self, path: str) -> str:
        """Return the API's name of a field of the RPC's request."""
        return self.path_in_use(api_name(path, ChatRequest.rpc_names))


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
    special = request.add_special_tokens
    try:
        encoding = await client.tokenize(
            prompt, model=request.model, add_special_tokens=special, **request.chat_options()
        )
    except OutriderError as error:
        raise problem_of(error, request.name_of) from None
    counted: Json = {"count": len(encoding.token_ids), "tokens": encoding.token_ids}
    if request.return_token_strs is False:
        return counted
    return {**counted, "token_strs": [bytes_.decode(errors="replace") for bytes_ in encoding.token_bytes]}


async def detokenize(client: AsyncClient, _: Request, body: bytes) -> Json:
    """Return the text; raises OutriderError and Problem."""
    request = parse(DetokenizeRequest, body)
    decoding = await client.detokenize(
        request.tokens, show_special_tokens=request.show_special_tokens, model=request.model
    )
    return {"prompt": decoding.text}
