"""Sessions: beginnings of prompts that callers hold in the KV cache by name, for a time and within a quota."""
