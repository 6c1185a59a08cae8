"""Heads of known quality, and what they cost."""
