"""GET /health: reports whether a target answers."""

import logging

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from outrider import DeadlineExceeded, OutriderError, Unavailable
from services.gateway.gateway import Gateway

logger = logging.getLogger(__name__)
_SECONDS = 2.0


class Health:
    """Calls the targets without a key; a target that refuses the call is alive."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, _: Request) -> Response:
        """Return status 200 if a target answers, else 503; the reason is logged."""
        try:
            async with self._gateway.client_without_key() as client:
                await client.model_info(timeout=_SECONDS)
        except (Unavailable, DeadlineExceeded) as error:
            logger.warning("no target answers: %s", error)
            return JSONResponse({"status": "unavailable"}, 503)
        except OutriderError:
            pass
        return JSONResponse({"status": "ok"})
