"""Where predictions come from, apart from a draft service."""
