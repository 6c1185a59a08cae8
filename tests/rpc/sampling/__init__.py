"""What tokens are drawn by, and what is told of them."""
