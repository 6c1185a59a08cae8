"""How each architecture's config.json is read: one module for each family, one table of all."""
