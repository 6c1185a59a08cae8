"""GET /health: whether a request would be answered."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from outrider import DeadlineExceeded, OutriderError, Unavailable
from services.gateway.gateway import Gateway

_SECONDS = 2.0


class Health:
    """Asks the targets; one that refuses the caller lives."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, http: Request) -> Response:
        """200 where a target answers, 503 where none does, with the reason."""
        try:
            async with self._gateway.client_for(http) as client:
                await client.model_info(timeout=_SECONDS)
        except (Unavailable, DeadlineExceeded) as error:
            return JSONResponse({"status": "unavailable", "detail": str(error)}, 503)
        except OutriderError:
            pass
        return JSONResponse({"status": "ok"})
