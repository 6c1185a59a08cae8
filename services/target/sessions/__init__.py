"""Sessions: prompt prefixes that callers pin in the KV cache by name, for a time and within a quota."""
