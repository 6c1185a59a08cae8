"""The step, over and over on a thread of its own: schedule, predict, compute, sample, commit."""
