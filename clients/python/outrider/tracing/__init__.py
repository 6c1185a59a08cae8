"""Traces of calls, where the program that calls has OpenTelemetry."""
