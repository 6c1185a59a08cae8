"""What is claimed, tried on published models: `python -m tests.real` does it, `tests.real.fetch` gets them."""
