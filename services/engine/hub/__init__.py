"""Models by their names on the hub: which of their files are needed, and how these come into the cache."""
