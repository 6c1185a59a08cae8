"""A conversation in a terminal: lines are questions or commands, and answers appear as they are generated."""
