"""Commands that call servers, and their shared code."""
