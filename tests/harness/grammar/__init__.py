"""Grammars, good and hostile, and texts that follow them."""
