"""What the host's own work costs for each token: `python -m benchmarks.host`."""
