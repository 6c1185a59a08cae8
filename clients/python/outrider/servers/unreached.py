"""unreached: why no connection to a server could be made, in plain words."""

import re
from urllib.parse import unquote

MARKS = ("failed to connect", "DNS resolution failed", "errors resolving")
"""How gRPC's messages begin where no connection could be made."""

NOBODY = "nobody answers at "
"""How the reason begins where no server listens at an address."""

_ADDRESS = re.compile(r"last error: [A-Z_]+: (?:ipv[46]:)?(\S+): ")
_REASONS = {
    "Connection refused": f"{NOBODY}{{}}",
    "No such file or directory": f"{NOBODY}{{}}",
    "No route to host": f"{NOBODY}{{}}",
    "tcp handshaker shutdown": f"{NOBODY}{{}}",  # in the time of an attempt
    "before receiving SETTINGS frame": "{} takes connections but says nothing in time: it is overloaded, or no target",
    "http1.x server": "{} speaks HTTP, as a gateway does, and not gRPC: the target has a port of its own",
    "WRONG_VERSION_NUMBER": "{} does not speak TLS; call it without certificates",
    "closed": "{} closes the connection: it may want TLS, or a certificate of its own authority",
    "certificate has expired": "the certificate of {} has expired",
    "CERTIFICATE_VERIFY_FAILED": "the certificate of {} is not signed by an authority that is trusted here",
    "Hostname Verification": "the certificate of {} is for another host name",
}


def reason_of(message: str) -> str:
    """Return what a message of gRPC about a server that was not reached means; itself where that is not known."""
    address = _ADDRESS.search(message)
    reasons = (reason for mark, reason in _REASONS.items() if mark in message)
    return next(reasons, message).format(unquote(address[1])) if address else message
