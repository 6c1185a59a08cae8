"""A service's life cycle: availability, reloads, hung steps, restarts, signals, exit codes."""
