"""Sessions, and the caches that hold their blocks."""
