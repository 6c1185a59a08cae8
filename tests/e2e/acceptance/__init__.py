"""How often a draft is right, offline and online."""
