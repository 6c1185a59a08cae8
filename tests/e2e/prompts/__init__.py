"""Prompts: their records, scores, embeddings and healing."""
