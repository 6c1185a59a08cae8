"""GET /v1/models, and /v1/models/NAME: the models that the targets serve."""

from starlette.requests import Request

from outrider import AsyncClient, LoraAdapter, ModelInfo
from services.gateway.generation.writer import Json


async def list_models(client: AsyncClient, _: Request, __: bytes) -> Json:
    """All that are loaded, each with its adapters behind it, whose names are models to ask for."""
    infos = [each.info for each in await client.list_models() if each.info]
    return {"object": "list", "data": [entry for info in infos for entry in _entries(info)]}


async def retrieve_model(client: AsyncClient, http: Request, _: bytes) -> Json:
    """One by its name, which may have slashes; raises OutriderError for another name."""
    name = http.path_params["name"]
    entries = _entries(await client.model_info(model=name))
    return next((entry for entry in entries if entry["id"] == name), entries[0])


def _entries(info: ModelInfo) -> list[Json]:
    return [_told(info), *(_told_adapter(info, lora) for lora in info.loras)]


def _told_adapter(info: ModelInfo, lora: LoraAdapter) -> Json:
    """As vLLM lists it, by its parent."""
    told = _told(info)
    return {
        **told,
        "id": lora.name,
        "parent": info.name,
        "outrider": {**told["outrider"], "fingerprint": lora.fingerprint},
    }


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
