"""The policy of speculation: how many predictions to verify, and how long to wait for them."""
