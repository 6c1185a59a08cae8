"""What is measured from a checkout alone: `python -m services.bench.experiments.NAME --help`. No wheel holds it."""
