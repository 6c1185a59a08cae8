"""GET /v1/models, and /v1/models/NAME: the models that the targets serve."""

from starlette.requests import Request

from outrider import AsyncClient, LoraAdapter, ModelInfo, ModelState, ServedModel
from services.gateway.generation.writer import Json

_STATUS = {ModelState.READY: "loaded"}  # other states have our names


async def list_models(client: AsyncClient, _: Request, __: bytes) -> Json:
    """Return all models with their states, each followed by its LoRA adapters, which are models too; loads none."""
    return {"object": "list", "data": [entry for model in await client.list_models() for entry in _entries(model)]}


async def retrieve_model(client: AsyncClient, http: Request, _: bytes) -> Json:
    """Return a model by its name, which may contain slashes, or the list; raises OutriderError for an unknown name."""
    if not (name := http.path_params["name"]):  # a slash after the path of the list
        return await list_models(client, http, b"")
    entries = [entry for model in await client.list_models() for entry in _entries(model)]
    if (found := next((entry for entry in entries if entry["id"] == name), None)) is None:
        info = await client.model_info(model=name)  # raises an error that lists the known names
        found = _described(info, ModelState.READY, 1.0)
    return found


def _entries(model: ServedModel) -> list[Json]:
    if (info := model.info) is None:
        return [_named(model.name, model.state, model.loaded_share)] if model.name else []
    base = _described(info, model.state, model.loaded_share)
    return [base, *(_described_adapter(base, lora) for lora in info.loras)]


def _described_adapter(base: Json, lora: LoraAdapter) -> Json:
    """Return the entry of an adapter, with its parent as in vLLM."""
    return {
        **base,
        "id": lora.name,
        "parent": base["id"],
        "outrider": {**base["outrider"], "fingerprint": lora.fingerprint},
    }


def _described(info: ModelInfo, state: ModelState, share: float) -> Json:
    return {
        **_named(info.name, state, share),
        "max_model_len": info.context_length,
        "outrider": {
            "architecture": info.architecture,
            "vocab_size": info.vocab_size,
            "eos_token_ids": info.eos_token_ids,
            "fingerprint": info.fingerprint,
            "has_chat_template": info.has_chat_template,
            "has_infill": info.has_infill,
            "has_draft": info.has_draft,
            "head": info.head,
        },
    }


def _named(name: str, state: ModelState, share: float) -> Json:
    """Return the fields of a model that are known in any state; the status is as in llama.cpp's server."""
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "outrider",
        "status": {"value": _STATUS.get(state, str(state)), "loaded_share": share},
    }
