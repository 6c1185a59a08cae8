"""What the gateway needs of HTTP: connections and bodies within bounds, keys, server-sent events, readers who leave."""
