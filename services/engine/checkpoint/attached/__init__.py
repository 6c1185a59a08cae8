"""Attached drafters, which predict from the features of their target: heads in folders, a model's own MTP layer."""
