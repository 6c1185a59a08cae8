"""GET /v1/models, and /v1/models/NAME: the one model that the targets serve."""

from starlette.requests import Request

from outrider import AsyncClient, ModelInfo
from services.gateway.gateway import Gateway
from services.gateway.generation.problem import Kind, Problem
from services.gateway.generation.writer import Json


async def list_models(client: AsyncClient, gateway: Gateway, _: Request, __: bytes) -> Json:
    """A list of one."""
    return {"object": "list", "data": [_told(await gateway.model.info(client))]}


async def retrieve_model(client: AsyncClient, gateway: Gateway, http: Request, _: bytes) -> Json:
    """That one by its name, which may have slashes; raises Problem for another name."""
    info, name = await gateway.model.info(client), http.path_params["name"]
    if name != info.name:
        raise Problem(Kind.NOT_FOUND, f"model: {name!r} is not served here; allowed: {info.name!r}", "model")
    return _told(info)


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
