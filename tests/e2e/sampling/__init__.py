"""What tokens are drawn by."""
