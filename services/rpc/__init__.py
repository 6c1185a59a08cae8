"""Shared gRPC plumbing: the server, its errors, and the way between messages and engine types."""
