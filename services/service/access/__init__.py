"""Access control: a caller's certificate or token is checked, and gives it a name, scopes and limits."""
