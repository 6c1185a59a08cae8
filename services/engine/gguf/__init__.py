"""A GGUF file, read and checked: its metadata, its tensors as they are stored, and its tokenizer."""
