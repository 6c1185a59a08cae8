"""Who may come in: what a caller shows is checked, and gives it a name, scopes and limits of its own."""
