"""GET /v1/models, and /v1/models/NAME: the models that the targets serve."""

from starlette.requests import Request

from outrider import AsyncClient, ModelInfo
from services.gateway.generation.writer import Json


async def list_models(client: AsyncClient, _: Request, __: bytes) -> Json:
    """All that are loaded."""
    return {"object": "list", "data": [_told(each.info) for each in await client.list_models() if each.info]}


async def retrieve_model(client: AsyncClient, http: Request, _: bytes) -> Json:
    """One by its name, which may have slashes; raises OutriderError for another name."""
    return _told(await client.model_info(model=http.path_params["name"]))


def _told(info: ModelInfo) -> Json:
    return {
        "id": info.name,
        "object": "model",
        "created": 0,
        "owned_by": "outrider",
        "max_model_len": info.context_length,
        "outrider": {
            "architecture": info.architecture,
            "vocab_size": info.vocab_size,
            "eos_token_ids": info.eos_token_ids,
            "fingerprint": info.fingerprint,
            "has_chat_template": info.has_chat_template,
        },
    }
