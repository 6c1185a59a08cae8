"""Code that both services share: start, end and supervision, options, the gRPC server, errors, health, limits."""
