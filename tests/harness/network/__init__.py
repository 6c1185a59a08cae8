"""Ports, proxies and certificates."""
