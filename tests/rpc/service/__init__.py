"""What those see who run a service."""
