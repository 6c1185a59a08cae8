"""What of a request says how its tokens are drawn, beside plain numbers."""
