"""Targets whose vocabulary is not the draft's: the way between the two."""
