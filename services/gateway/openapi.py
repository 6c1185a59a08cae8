"""GET /openapi.json: the gateway's requests, as an OpenAPI document."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from outrider import __version__

_OBJECT = {"application/json": {"schema": {"type": "object"}}}
_TEXT = {"type": "string"}
_EVENT = {"type": "object", "properties": {"data": _TEXT, "event": _TEXT, "id": _TEXT}, "required": ["data"]}
_EVENTS = {"text/event-stream": {"schema": _EVENT}}
_PROBLEMS = {400: "A field is wrong", 401: "Unknown key", 404: "Unknown model", 413: "The body is too large"}
_PROBLEMS |= {403: "The key or the name in Host is not allowed", 415: "The content type or encoding is not allowed"}
_PROBLEMS |= {409: "The answer cannot be resumed", 429: "The target is full", 503: "No target can be reached"}
_GET = {"/health": "Whether a target answers", "/v1/models": "The models", "/openapi.json": "This document"}
_GET |= {"/page/settings.json": "Settings of the page"}
_FILES = {"/": "A page that shows the draft at work", "/page/{name}": "A file of that page"}
_FILES |= {"/metrics": "Metrics in the format of Prometheus"}
_ANY = {"*/*": {"schema": {"type": "string"}}}
_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}


def document(bodies: Mapping[str, type[BaseModel]], streams: Mapping[str, bool]) -> dict[str, Any]:
    """Return the document; `bodies` has the request of each path, `streams` whether it may answer with events."""
    requests = list(dict.fromkeys(bodies.values()))
    template = "#/components/schemas/{model}"
    schemas, definitions = models_json_schema([(one, "validation") for one in requests], ref_template=template)
    paths: dict[str, Any] = {path: {"get": _get(summary)} for path, summary in _GET.items()}
    paths["/v1/models/{name}"] = {"get": _get("The model by its name"), "parameters": [_NAME]}
    paths |= {path: {"get": _get(summary, _ANY)} for path, summary in _FILES.items()}
    paths["/page/{name}"]["parameters"] = [_NAME]
    for path, request in bodies.items():
        paths[path] = {"post": _post(request, schemas[request, "validation"], is_streamed=streams[path])}
    schemes = {"key": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Outrider", "version": __version__},
        "paths": paths,
        "components": {"schemas": definitions.get("$defs", {}), "securitySchemes": schemes},
        "security": [{}, {"key": []}],
    }


def _get(summary: str, content: Mapping[str, Any] = _OBJECT) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": {"description": summary, "content": content}, **_problems()}}


def _post(request: type[BaseModel], schema: Mapping[str, Any], *, is_streamed: bool) -> dict[str, Any]:
    content = {**_OBJECT, **(_EVENTS if is_streamed else {})}
    return {
        "summary": (request.__doc__ or "").partition("\n")[0],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {"200": {"description": "The answer", "content": content}, **_problems()},
    }


def _problems() -> dict[str, Any]:
    return {str(status): {"description": what, "content": _OBJECT} for status, what in _PROBLEMS.items()}
