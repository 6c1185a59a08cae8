"""How channels to a server are set up."""

from collections.abc import Sequence

ChannelOption = tuple[str, int | str]

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


def channel_options(extra: Sequence[ChannelOption]) -> list[ChannelOption]:
    """The client's channel options, with those of the caller in place of its own where both name one."""
    return list({**dict(_OPTIONS), **dict(extra)}.items())
