"""AllowedHosts: what a request may call this gateway, so that no page gets in by a name of its own."""

import ipaddress
import re
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from services.gateway.generation.problem import Kind, Problem

_NAME_AND_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::\d*)?")
_MOST_REPEATED = 64  # characters of what is refused


class AllowedHosts:
    """Refuses requests whose `Host` is another name.

    A page may bind its own name to this machine's address, and is then, to its reader's browser, of one origin with the
    gateway. Its `Host` is that name: addresses are nobody's to bind, and no browser leaves it out.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], refuse: Callable[[Problem], Response]) -> None:
        self._app = app
        self._hosts = hosts
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, or refuse it."""
        told = Headers(scope=scope).get("host") if scope["type"] == "http" else None
        if told is None or self._is_allowed(told):
            await self._app(scope, receive, send)
            return
        allowed = f"addresses, {', '.join(sorted(filter(None, self._hosts)))}; --allowed-hosts adds others"
        message = f"Host: is {told[:_MOST_REPEATED]!r}; allowed: {allowed}"
        await self._refuse(Problem(Kind.FORBIDDEN, message, "Host"))(scope, receive, send)

    def _is_allowed(self, told: str) -> bool:
        match = _NAME_AND_PORT.fullmatch(told)
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
