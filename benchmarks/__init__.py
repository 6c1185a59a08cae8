"""Benchmarks that need a checkout: `python -m benchmarks.NAME --help`. They are not in the wheel."""
