"""What the tests of whole services are made of: models, services in processes, proxies, bad drafts, and gauges."""
