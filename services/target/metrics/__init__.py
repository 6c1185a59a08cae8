"""Statistics and traces of requests, and the target's Prometheus metrics."""
