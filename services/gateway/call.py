"""Call: an endpoint that makes one call to a target and generates no text."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from outrider import AsyncClient, OutriderError
from services.gateway.gateway import Gateway
from services.gateway.generation.field_names import common_name, problem_of
from services.gateway.generation.problem import Problem
from services.gateway.web.presence import LEFT, unless_left

Json = dict[str, Any]


class Call:
    """Answers with an object, or an error in an API's own format; the call is cancelled if the client disconnects."""

    def __init__(
        self,
        gateway: Gateway,
        ask: Callable[[AsyncClient, Request, bytes], Awaitable[Json]],
        problem: Callable[[Problem], Json],
    ) -> None:
        """`ask` is given the request's body; it raises OutriderError or Problem if it cannot answer."""
        self._gateway = gateway
        self._ask = ask
        self._problem = problem

    async def __call__(self, http: Request) -> Response:
        """Return the response to a request."""
        try:
            body = await self._gateway.body_of(http) if http.method == "POST" else b""
            async with self._gateway.client_for(http) as client, unless_left(http.receive):
                return JSONResponse(await self._ask(client, http, body))
        except ClientDisconnect:
            return Response(status_code=LEFT)
        except OutriderError as error:
            problem = problem_of(error, common_name)
        except Problem as error:
            problem = error
        return JSONResponse(self._problem(problem), problem.kind.status, problem.headers)
