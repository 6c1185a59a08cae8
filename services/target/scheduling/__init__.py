"""Which rows of which sequences the next pass computes."""
