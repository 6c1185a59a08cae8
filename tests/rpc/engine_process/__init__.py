"""Targets whose engine has a process of its own: the same answers, and what happens when a process ends or hangs."""
