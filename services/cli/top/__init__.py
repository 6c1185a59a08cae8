"""A live display of a target's load in a terminal."""
