"""What the gateway needs of HTTP: bodies within bounds, keys, server-sent events, readers who leave."""
