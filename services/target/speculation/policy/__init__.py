"""How many predictions to verify: one configuration, one equation."""
