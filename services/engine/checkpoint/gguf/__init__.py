"""A GGUF file as a checkpoint: what its keys and tensors stand for."""
