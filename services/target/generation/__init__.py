"""The engine thread's loop of steps: schedule, predict, compute, sample, commit."""
