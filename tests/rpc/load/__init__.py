"""Crowds, large inputs, readers that stall, and who is refused for load."""
