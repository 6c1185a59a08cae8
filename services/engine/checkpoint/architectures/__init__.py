"""Readers of each architecture's config.json: one module for each family, and one table of all."""
