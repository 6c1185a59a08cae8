"""Fronts: processes that have the connections of clients and forward their calls to the service."""
