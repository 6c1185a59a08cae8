"""The engine shared by both services: it knows tokens and tensors, and nothing of gRPC."""
