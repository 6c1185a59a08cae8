"""What is said of given texts, of which nothing is generated: scores and embeddings."""
