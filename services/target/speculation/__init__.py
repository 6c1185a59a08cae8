"""Speculative decoding: predictions that are verified beside each sequence's own row, and their acceptance."""
