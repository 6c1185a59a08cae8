"""Telemetry of the services: metrics, traces and logs; never the generated text."""
