"""Drafts for experiments: scripted ones, bad ones, and distant ones."""
