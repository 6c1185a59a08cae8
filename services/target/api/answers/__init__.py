"""What becomes of a generation on its way out: its events as messages, read or ranked where that is asked."""
