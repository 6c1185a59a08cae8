"""A target under far more load than it can serve at once: `make load`."""
