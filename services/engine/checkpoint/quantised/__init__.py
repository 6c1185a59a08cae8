"""Weights that other tools have quantised: what lies in their safetensors files, as blocks of ours or as numbers."""
