"""One generation's state, and the stream of its events to a reader."""
