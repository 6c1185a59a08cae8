"""What a target does when far more is asked of it than it can do at once: `make load`."""
