"""End to end: what a user gets is the same bytes, whatever goes on around it."""
