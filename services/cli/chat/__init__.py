"""A conversation in a terminal: lines are questions or commands, answers come as they are written."""
