"""Drafts for benchmarks: scripted ones, bad ones, and distant ones."""
