"""What those who run a service may ask of it while it runs, at an address of its own."""
