"""A GGUF file, read and checked: its metadata, its stored tensors, and its tokenizer."""
