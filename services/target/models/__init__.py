"""The served models: their loading and unloading, and changes of their adapters."""
