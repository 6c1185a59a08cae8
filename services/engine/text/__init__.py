"""Tokenization: text to token ids, and token ids to bytes."""
