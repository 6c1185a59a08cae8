"""The engine of both services: requests, events, the engine's thread; it handles tokens and tensors, and no gRPC."""
