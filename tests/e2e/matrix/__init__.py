"""The matrix of equality: its cells, the streams in each, and what runs and compares them."""
