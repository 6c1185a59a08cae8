"""Weights that other tools have quantised: their safetensors are read as blocks of our formats or as numbers."""
