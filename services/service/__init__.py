"""What starts, watches and ends a service, whichever it is: options, the gRPC server, errors, health, limits."""
