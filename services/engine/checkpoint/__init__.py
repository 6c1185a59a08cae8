"""A model folder, read: its configuration, its weights under our names, and what it recommends."""
