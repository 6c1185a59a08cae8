"""Experiments that need a checkout: `python -m services.bench.experiments.NAME --help`. They are not in the wheel."""
