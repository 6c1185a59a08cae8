"""Servers: real ones inside the test's process, scripted ones that break, and what calls them."""
