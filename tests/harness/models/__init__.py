"""Small random checkpoints, adapters and GGUF files."""
