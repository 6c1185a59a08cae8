"""Outrider's services: the target, which holds the model, and the draft, which rides ahead of it."""
