"""Keepalive: how often the two ends of a connection ask whether the other is still there, in one place.

A server ends a connection whose client asks more often than it permits, and clocks and networks make what was sent
every ten seconds arrive after nine: so a server permits twice as often as anything of ours asks.
"""

PING_MS = 10_000  # between two questions of a draft link; no client of ours asks more often
PERMITTED_PING_MS = PING_MS // 2
