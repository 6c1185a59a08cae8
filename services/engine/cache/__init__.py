"""Which sequence owns which KV block, and which blocks are kept for later ones."""
