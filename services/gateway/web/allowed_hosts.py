"""AllowedHosts: checks the Host header of requests, against DNS rebinding by web pages."""

import ipaddress
import re
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from services.gateway.generation.problem import Kind, Problem

_NAME_AND_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::\d*)?")
_MOST_REPEATED = 64  # characters of a refused name in the message


class AllowedHosts:
    """Refuses requests whose `Host` is not an allowed name.

    A page can let its own domain name resolve to this machine's address; the browser then takes the gateway as the
    page's own origin. But the `Host` of its requests, which browsers always send, is that name. Addresses are always
    allowed: they cannot be rebound.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], refuse: Callable[[Problem], Response]) -> None:
        self._app = app
        self._hosts = hosts
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        host = Headers(scope=scope).get("host") if scope["type"] == "http" else None
        if host is None or self._is_allowed(host):
            await self._app(scope, receive, send)
            return
        allowed = f"addresses, {', '.join(sorted(filter(None, self._hosts)))}; --allowed-hosts adds others"
        message = f"Host: is {host[:_MOST_REPEATED]!r}; allowed: {allowed}"
        await self._refuse(Problem(Kind.FORBIDDEN, message, "Host"))(scope, receive, send)

    def _is_allowed(self, host: str) -> bool:
        match = _NAME_AND_PORT.fullmatch(host)
        if match is None:
            return False
        name = match[1].lower().rstrip(".")
        if name in self._hosts or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True
