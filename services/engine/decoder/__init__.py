"""The native decoder, loaded: weights packed or read from a cache, memory sized, a first pass run."""
