"""A Hugging Face folder, read and checked: its configuration, its weights under our names, and what it recommends."""
