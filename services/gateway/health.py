"""GET /health: whether a request would be answered."""

import logging

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from outrider import DeadlineExceeded, OutriderError, Unavailable
from services.gateway.gateway import Gateway

logger = logging.getLogger(__name__)
_SECONDS = 2.0


class Health:
    """Asks the targets without a key; one that refuses that lives."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, _: Request) -> Response:
        """200 where a target answers, 503 where none does; the log has the reason."""
        try:
            async with self._gateway.client_without_key() as client:
                await client.model_info(timeout=_SECONDS)
        except (Unavailable, DeadlineExceeded) as error:
            logger.warning("no target answers: %s", error)
            return JSONResponse({"status": "unavailable"}, 503)
        except OutriderError:
            pass
        return JSONResponse({"status": "ok"})
