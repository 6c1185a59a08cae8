"""Call: an endpoint that is one question to the targets, and no text is written."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from outrider import AsyncClient, OutriderError
from services.gateway.gateway import Gateway
from services.gateway.generation.field_names import common_name, problem_of
from services.gateway.generation.problem import Problem
from services.gateway.generation.writer import Json
from services.gateway.openai.problem_body import problem_body


class Call:
    """Answers with an object, or an error in OpenAI's shape."""

    def __init__(self, gateway: Gateway, ask: Callable[[AsyncClient, Gateway, Request], Awaitable[Json]]) -> None:
        """`ask` raises OutriderError or Problem for what cannot be answered."""
        self._gateway = gateway
        self._ask = ask

    async def __call__(self, http: Request) -> Response:
        """The response."""
        try:
            async with self._gateway.client_for(http) as client:
                return JSONResponse(await self._ask(client, self._gateway, http))
        except OutriderError as error:
            problem = problem_of(error, common_name)
        except Problem as error:
            problem = error
        return JSONResponse(problem_body(problem), problem.kind.status, problem.headers)
