"""GET /v1/models, and /v1/models/NAME: the models that the targets serve."""

from starlette.requests import Request

from outrider import AsyncClient, LoraAdapter, ModelInfo, ModelState, ServedModel
from services.gateway.generation.writer import Json

_STATUS = {ModelState.READY: "loaded"}  # the others are called as ours are


async def list_models(client: AsyncClient, _: Request, __: bytes) -> Json:
    """All, each with its adapters behind it, whose names are models to ask for, and its state: loads none of them."""
    return {"object": "list", "data": [entry for model in await client.list_models() for entry in _entries(model)]}


async def retrieve_model(client: AsyncClient, http: Request, _: bytes) -> Json:
    """One by its name, which may have slashes; raises OutriderError for another name."""
    name = http.path_params["name"]
    entries = [entry for model in await client.list_models() for entry in _entries(model)]
    if (found := next((entry for entry in entries if entry["id"] == name), None)) is None:
        info = await client.model_info(model=name)  # which refuses it, and names those that there are
        found = _told(info, ModelState.READY, 1.0)
    return found


def _entries(model: ServedModel) -> list[Json]:
    if (info := model.info) is None:
        return [_named(model.name, model.state, model.loaded_share)] if model.name else []
    told = _told(info, model.state, model.loaded_share)
    return [told, *(_told_adapter(told, lora) for lora in info.loras)]


def _told_adapter(told: Json, lora: LoraAdapter) -> Json:
    """As vLLM lists it, by its parent."""
    return {
        **told,
        "id": lora.name,
        "parent": told["id"],
        "outrider": {**told["outrider"], "fingerprint": lora.fingerprint},
    }


def _told(info: ModelInfo, state: ModelState, share: float) -> Json:
    return {
        **_named(info.name, state, share),
        "max_model_len": info.context_length,
        "outrider": {
            "architecture": info.architecture,
            "vocab_size": info.vocab_size,
            "eos_token_ids": info.eos_token_ids,
            "fingerprint": info.fingerprint,
            "has_chat_template": info.has_chat_template,
        },
    }


def _named(name: str, state: ModelState, share: float) -> Json:
    """What is known of a model whatever its state is, which is told as llama.cpp's server tells it."""
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "outrider",
        "status": {"value": _STATUS.get(state, str(state)), "loaded_share": share},
    }
