"""Attached drafters, which predict from the features of their target: EAGLE-3 folders, and a model's own MTP layer."""
