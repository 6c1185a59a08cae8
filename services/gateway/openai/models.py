"""GET /v1/models, and /v1/models/NAME: the one model that the targets serve."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from outrider import ModelInfo, OutriderError
from services.gateway.gateway import Gateway
from services.gateway.generation.field_names import COMMON_NAMES, problem_of
from services.gateway.generation.problem import Kind, Problem
from services.gateway.generation.writer import Json
from services.gateway.openai.problem_body import problem_body


class Models:
    """Tells of it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, http: Request) -> Response:
        """A list of one, or that one by its name, which may have slashes."""
        try:
            async with self._gateway.client_for(http) as client:
                model = _model(await self._gateway.model.info(client))
            if (name := http.path_params.get("name", model["id"])) != model["id"]:
                raise Problem(Kind.NOT_FOUND, f"model: {name!r} is not served; allowed: {model['id']!r}", "model")
        except OutriderError as error:
            return _refusal(problem_of(error, COMMON_NAMES))
        except Problem as problem:
            return _refusal(problem)
        return JSONResponse(model if "name" in http.path_params else {"object": "list", "data": [model]})


def _refusal(problem: Problem) -> Response:
    return JSONResponse(problem_body(problem), problem.kind.status)


def _model(info: ModelInfo) -> Json:
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
