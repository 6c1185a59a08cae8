"""What prints the project's figures: `python -m benchmarks.NAME --help`."""
