"""Parts of the gateway's tests: a running gateway, and a reader of its events."""
