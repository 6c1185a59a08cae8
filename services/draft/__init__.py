"""The draft service: follows its targets' sequences, and predicts their next tokens before these are known."""
