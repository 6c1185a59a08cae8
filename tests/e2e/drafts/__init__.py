"""Drafts that come and go, are wrong, are hostile, or know another vocabulary."""
