"""What a target does, watched in a terminal."""
