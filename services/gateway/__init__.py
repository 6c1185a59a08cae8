"""The HTTP gateway: a stateless client of one or more targets that serves the HTTP APIs that other tools use."""
