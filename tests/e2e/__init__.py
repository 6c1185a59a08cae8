"""End to end: a client gets the same bytes, whatever happens beside its request."""
