"""The OpenAPI document that a gateway serves, from which pages of the docs are written."""

import asyncio
import json
from typing import Any

from services.gateway.app import make_app
from services.gateway.config import GatewayConfig
from services.gateway.gateway import Gateway


def gateway_document() -> dict[str, Any]:
    """Return the document; no target is asked for it."""
    return asyncio.run(_document())


async def _document() -> dict[str, Any]:
    gateway = Gateway(GatewayConfig(targets=("127.0.0.1:1",)))
    routes: dict[str, Any] = {getattr(route, "path", ""): route for route in make_app(gateway).routes}
    response = await routes["/openapi.json"].endpoint(None)
    await gateway.close()
    document: dict[str, Any] = json.loads(bytes(response.body))
    return document
