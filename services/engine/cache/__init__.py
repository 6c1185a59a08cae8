"""The KV cache's blocks: block tables of sequences (as in PagedAttention), prefix cache, LRU eviction."""
