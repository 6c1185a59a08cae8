"""Keepalive: the intervals of gRPC's keepalive pings, for both ends of a connection.

A server closes a connection whose client pings more often than permitted, and jitter can make pings that were sent ten
seconds apart arrive nine seconds apart: so our servers permit pings twice as often as our clients send them.
"""

PING_MS = 10_000  # between two pings of a draft link; no client of ours pings more often
PERMITTED_PING_MS = PING_MS // 2
