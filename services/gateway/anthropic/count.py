"""POST /v1/messages/count_tokens: counts the tokens of a conversation."""

from starlette.requests import Request

from outrider import AsyncClient, OutriderError
from services.gateway.anthropic.conversation import AnthropicConversation
from services.gateway.anthropic.request import RPC_NAMES
from services.gateway.generation.field_names import api_name, problem_of
from services.gateway.generation.validation import parse
from services.gateway.generation.writer import Json


class CountRequest(AnthropicConversation):
    """A conversation whose tokens are counted."""

    model: str | None = None

    def name_of(self, path: str) -> str:
        """Return the API's name of a field of the RPC's request."""
        path = f"prompt.{path}"
        return self.message_name(path) or api_name(path, RPC_NAMES)


async def count_tokens(client: AsyncClient, _: Request, body: bytes) -> Json:
    """Return the number of tokens; raises OutriderError and Problem."""
    request = parse(CountRequest, body)
    try:
        encoding = await client.tokenize(request.conversation(), model=request.model, **request.chat_options())
    except OutriderError as error:
        raise problem_of(error, request.name_of) from None
    return {"input_tokens": len(encoding.token_ids)}
