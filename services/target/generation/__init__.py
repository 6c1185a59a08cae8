"""The engine thread's step, over and over: schedule, predict, compute, sample, commit."""
