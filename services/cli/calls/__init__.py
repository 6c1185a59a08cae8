"""Commands that call servers, and what they share."""
