"""Untrusted files: opened without blocking, checked for their size before they are read, with clear errors."""
