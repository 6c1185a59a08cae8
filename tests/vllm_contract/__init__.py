"""vLLM's gRPC contract, as routers use it, on a target of the test's own process."""
