"""The gateway's HTTP layer: limits of connections and bodies, keys, server-sent events, disconnected clients."""
