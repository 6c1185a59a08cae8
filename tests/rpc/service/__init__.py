"""The service as operators see it."""
