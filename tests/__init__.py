"""Tests: unit, native, rpc, and end to end."""
