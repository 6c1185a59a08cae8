"""What a service's life is made of: why it does not serve, what it reads anew, hung steps, signals, exit codes."""
