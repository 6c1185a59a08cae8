"""The ASGI application: its routes and middleware."""

import asyncio
from collections.abc import AsyncIterator
from collections.abc import Sequence as Seq
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from services.gateway.anthropic.count import CountRequest, count_tokens
from services.gateway.anthropic.problem_body import problem_body as anthropic_body
from services.gateway.anthropic.writer import MESSAGES
from services.gateway.call import Call
from services.gateway.draft_control import DraftControl, DraftRequest
from services.gateway.endpoint import Endpoint
from services.gateway.gateway import Gateway
from services.gateway.generate.writer import GENERATE
from services.gateway.generation.problem import Kind, Problem
from services.gateway.generation.writer import Api
from services.gateway.health import Health
from services.gateway.infill.writer import INFILL
from services.gateway.openai.chat.writer import CHAT
from services.gateway.openai.completions.api import COMPLETIONS
from services.gateway.openai.embeddings import EmbeddingsRequest, embed
from services.gateway.openai.models import list_models, retrieve_model
from services.gateway.openai.problem_body import problem_body
from services.gateway.openai.responses.writer import RESPONSES
from services.gateway.openai.tokenization import DetokenizeRequest, TokenizeRequest, detokenize, tokenize
from services.gateway.openapi import document
from services.gateway.page.page import Page
from services.gateway.web.allowed_hosts import AllowedHosts

_APIS: dict[str, Api[Any]] = {
    "/v1/completions": COMPLETIONS,
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/messages": MESSAGES,
    "/v1/generate": GENERATE,
    "/infill": INFILL,
}
_CALLS = {
    "/v1/embeddings": (EmbeddingsRequest, embed, problem_body),
    "/tokenize": (TokenizeRequest, tokenize, problem_body),
    "/detokenize": (DetokenizeRequest, detokenize, problem_body),
    "/v1/messages/count_tokens": (CountRequest, count_tokens, anthropic_body),
}


def make_app(gateway: Gateway, cors_origins: Seq[str] = (), hosts: frozenset[str] | None = None) -> Starlette:
    """Return the gateway as an ASGI application; must be called on the event loop.

    Pages of `cors_origins` may call it. Requests must name one of `hosts`, or any if that is None.
    """
    control = DraftControl(gateway.demo_controls) if gateway.demo_controls is not None else None

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await gateway.close()
        if control is not None:
            await control.close()

    cors = Middleware(CORSMiddleware, allow_origins=cors_origins, allow_methods=["*"], allow_headers=["*"])
    names = () if hosts is None else (Middleware(AllowedHosts, hosts=hosts, refuse=_refused),)
    return Starlette(
        routes=_routes(gateway, control),
        middleware=[*names, *((cors,) if cors_origins else ())],
        exception_handlers={HTTPException: _refuse, Exception: _fail},
        lifespan=lifespan,
    )


def _routes(gateway: Gateway, control: DraftControl | None) -> list[Route]:
    calls = _CALLS if control is None else {**_CALLS, "/demo/draft": (DraftRequest, control.set, problem_body)}
    bodies = {path: api.request for path, api in _APIS.items()} | {path: call[0] for path, call in calls.items()}

    @cache
    def described() -> Response:
        return JSONResponse(document(bodies, {path: path in _APIS for path in bodies}))

    async def describe(_: Request) -> Response:
        return await asyncio.to_thread(described)  # the first time it takes a third of a second

    posts = {path: Endpoint(api, gateway).__call__ for path, api in _APIS.items()}
    posts |= {path: Call(gateway, *call[1:]).__call__ for path, call in calls.items()}
    page = Page(has_demo_controls=control is not None)
    gets = {
        "/": page.index,
        "/page/settings.json": page.settings,
        "/page/{name:path}": page.file,
        "/health": Health(gateway).__call__,
        "/metrics": gateway.metrics.page,
        "/openapi.json": describe,
        "/v1/models": Call(gateway, list_models, problem_body).__call__,
        "/v1/models/{name:path}": Call(gateway, retrieve_model, problem_body).__call__,
    }
    return [
        *(Route(path, answer, methods=["GET"]) for path, answer in gets.items()),
        *(Route(path, answer, methods=["POST"]) for path, answer in posts.items()),
    ]


async def _refuse(http: Request, error: Exception) -> Response:
    """Answer a request that matches no route."""
    assert isinstance(error, HTTPException)
    if error.status_code == Kind.WRONG_METHOD.status:
        problem = Problem(Kind.WRONG_METHOD, f"{http.method} is not served at {http.url.path}")
    else:
        problem = Problem(Kind.NOT_FOUND, f"{http.url.path} is not served")
    return JSONResponse(problem_body(problem), problem.kind.status, error.headers)


def _refused(problem: Problem) -> Response:
    return JSONResponse(problem_body(problem), problem.kind.status, problem.headers)


async def _fail(_: Request, __: Exception) -> Response:
    """Answer a request after an unexpected exception, which is logged."""
    return _refused(Problem(Kind.BROKEN, "the gateway failed to serve this request"))
