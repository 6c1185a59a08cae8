"""Parts of the tests of whole services: models, services in processes, proxies, bad drafts, and gauges."""
