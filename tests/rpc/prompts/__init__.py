"""Prompts by conversations and texts: rendering, scores, embeddings, healing and infill."""
