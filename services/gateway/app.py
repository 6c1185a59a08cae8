"""The application: which path leads where."""

from collections.abc import AsyncIterator
from collections.abc import Sequence as Seq
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from services.gateway.endpoint import Endpoint
from services.gateway.gateway import Gateway
from services.gateway.generation.problem import Kind, Problem
from services.gateway.health import Health
from services.gateway.openai.call import Call
from services.gateway.openai.chat.writer import CHAT
from services.gateway.openai.completions.writer import COMPLETIONS
from services.gateway.openai.models import list_models, retrieve_model
from services.gateway.openai.problem_body import problem_body
from services.gateway.openai.tokenization import detokenize, tokenize


def make_app(gateway: Gateway, cors_origins: Seq[str]) -> Starlette:
    """The gateway as an ASGI application, which pages of these origins may call."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await gateway.close()

    routes = [
        Route("/health", Health(gateway).__call__, methods=["GET"]),
        Route("/v1/models", Call(gateway, list_models).__call__, methods=["GET"]),
        Route("/v1/models/{name:path}", Call(gateway, retrieve_model).__call__, methods=["GET"]),
        Route("/tokenize", Call(gateway, tokenize).__call__, methods=["POST"]),
        Route("/detokenize", Call(gateway, detokenize).__call__, methods=["POST"]),
        Route("/v1/completions", Endpoint(COMPLETIONS, gateway).__call__, methods=["POST"]),
        Route("/v1/chat/completions", Endpoint(CHAT, gateway).__call__, methods=["POST"]),
    ]
    cors = Middleware(CORSMiddleware, allow_origins=cors_origins, allow_methods=["*"], allow_headers=["*"])
    middleware = [cors] if cors_origins else []
    handlers = {HTTPException: _refuse, Exception: _fail}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=lifespan)


async def _refuse(http: Request, error: Exception) -> Response:
    """What no route is for."""
    assert isinstance(error, HTTPException)
    if error.status_code == Kind.WRONG_METHOD.status:
        problem = Problem(Kind.WRONG_METHOD, f"{http.method} is not served at {http.url.path}")
    else:
        problem = Problem(Kind.NOT_FOUND, f"{http.url.path} is not served")
    return JSONResponse(problem_body(problem), problem.kind.status, error.headers)


async def _fail(_: Request, __: Exception) -> Response:
    """A fault of ours; the log has it."""
    return JSONResponse(problem_body(Problem(Kind.BROKEN, "the gateway failed at this request")), Kind.BROKEN.status)
