"""The served models: their loading and unloading, and their engines, drafts and adapters."""
