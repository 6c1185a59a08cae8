"""vLLM's gRPC contract on the target's port: what routers ask in its words, the generation service answers."""
