"""Sequences, and which rows of them the next pass computes."""
