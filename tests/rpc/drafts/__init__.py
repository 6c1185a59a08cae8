"""The draft service, and a target with one."""
