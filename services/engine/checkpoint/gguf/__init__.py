"""A GGUF file as a checkpoint: the meaning of its keys and tensors."""
