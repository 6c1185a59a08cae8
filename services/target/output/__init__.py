"""What may be drawn, and what becomes of it: text that may be released, and the stream to whoever reads it."""
