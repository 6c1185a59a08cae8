"""Conversations: their messages, what the model may call, and what it thinks, says and calls."""
