"""The draft service: rides ahead of its targets and predicts their next tokens."""
