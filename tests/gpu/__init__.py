"""What tests/gpu.sh runs beside the tests: a probe of the GPU, and the time of each kernel."""
