"""Folders of attached drafters, which predict from the features of their target (EAGLE-3)."""
