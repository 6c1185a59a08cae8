"""OpenAI's API, mostly by its own clients."""
