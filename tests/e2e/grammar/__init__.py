"""Answers that follow a grammar, a tool's schema, or the budget of a thought."""
