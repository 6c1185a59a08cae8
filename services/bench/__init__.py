"""Benchmarks: `outrider bench`, and experiments that need a checkout."""
