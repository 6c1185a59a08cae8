"""How many predictions to verify, and how long to wait for them: what pays, within a budget of what may be lost."""
