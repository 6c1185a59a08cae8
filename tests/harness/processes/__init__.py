"""Processes that start at once, and what a process has computed and started."""
