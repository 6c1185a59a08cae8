"""Models by their names on the hub: the files that are needed, and their download into the cache."""
