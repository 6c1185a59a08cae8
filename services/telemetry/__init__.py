"""What the services tell of themselves: metrics, traces, lines of a log; nothing of what is generated."""
