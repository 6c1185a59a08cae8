"""Text to token ids, and token ids to the bytes that they stand for."""
