"""Scores and embeddings of given texts, for which nothing is generated."""
