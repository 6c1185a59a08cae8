"""Targets that several processes serve: the same answers and limits, and what happens when a front ends."""
