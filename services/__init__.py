"""Outrider's services: the target, which generates the answers, and the draft, which predicts their tokens."""
