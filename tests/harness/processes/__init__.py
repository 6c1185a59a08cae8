"""Processes that start at once, and the CPU time and children of a process."""
