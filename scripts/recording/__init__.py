"""A recording: what a command really writes on a terminal, when it writes it, as a picture that moves."""
