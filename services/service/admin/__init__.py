"""Administration of a running service, at an address of its own."""
