"""The target's end of the link to a draft: its messages, the predictions, and reconnection."""
