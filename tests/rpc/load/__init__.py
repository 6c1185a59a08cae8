"""Crowds, large inputs, readers that stall, and refusals under load."""
