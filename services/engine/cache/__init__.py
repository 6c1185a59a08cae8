"""Which sequence owns which block of the KV cache, and which blocks are kept for later ones."""
