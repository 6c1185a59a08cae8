"""A Hugging Face folder or GGUF file, read and checked: configuration, weights under our names, recommendations."""
