"""Conversations and texts: what is made of them, and said of them."""
