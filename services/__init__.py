"""Outrider's services: the target, whose words the client gets, and the draft, which predicts them."""
