"""Predictions of the target's next tokens: where they come from, and how many are verified."""
