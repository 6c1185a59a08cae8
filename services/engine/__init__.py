"""What both services compute with: requests, events, the engine's thread; it knows tokens and tensors, and no gRPC."""
