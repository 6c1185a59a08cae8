"""How notebooks show what the client gives."""
