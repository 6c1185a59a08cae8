"""How channels to a server are set up, and what a call says of its caller."""

import ipaddress
import math
import re
from collections.abc import Sequence

ChannelOption = tuple[str, int | str]
Metadata = tuple[tuple[str, str], ...]

ADMITTED = "outrider-admitted"
"""In the headers of a stream whose request is admitted; its first message may be long in coming."""

_TOKEN = re.compile(r"[!-~]+")

_OPTIONS: tuple[ChannelOption, ...] = (
    ("grpc.max_receive_message_length", -1),
    # A dead peer is noticed within 80 seconds of silence, even in the middle of a stream.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    # A server that comes back is reached within a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)

# Of channels that are not encrypted: gRPC sends even what is for this machine through the proxy that the environment
# names, which could read it; over TLS a proxy only hands on.
IN_THE_CLEAR: tuple[ChannelOption, ...] = (("grpc.enable_http_proxy", 0),)


def channel_options(
    extra: Sequence[ChannelOption], *, is_encrypted: bool, connect_timeout: float | None = None
) -> list[ChannelOption]:
    """The client's channel options, with those of the caller in place of its own where both name one."""
    own = dict(_OPTIONS if is_encrypted else (*_OPTIONS, *IN_THE_CLEAR))
    if connect_timeout is not None and math.isfinite(connect_timeout):
        own["grpc.min_reconnect_backoff_ms"] = round(1000 * connect_timeout)  # bounds one attempt: 20 seconds otherwise
    return list({**own, **dict(extra)}.items())


def token_metadata(token: str | None, addresses: Sequence[str], *, is_encrypted: bool) -> Metadata:
    """The metadata that show a token, none without one; raises ValueError where others could read it on its way."""
    if token is None:
        return bearer(None)
    check_token(token)
    if not is_encrypted and (remote := [address for address in addresses if not is_local(address)]):
        raise ValueError(f"a token is sent over TLS only, or to this machine: {remote[0]!r} needs credentials")
    return bearer(token)


def bearer(token: str | None) -> Metadata:
    """The metadata that show a token, none without one."""
    return () if token is None else (("authorization", f"Bearer {token}"),)


def check_token(token: str) -> None:
    """Raise ValueError, which does not repeat it, for a token that no header can hold."""
    if not _TOKEN.fullmatch(token):
        raise ValueError("a token must be one word of visible ASCII characters")


def is_local(address: str) -> bool:
    """Whether an address cannot be of another machine: a Unix socket, localhost, or one of the loopback network."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host = address.removeprefix("dns:///").removeprefix("ipv4:").removeprefix("ipv6:").rpartition(":")[0]
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
