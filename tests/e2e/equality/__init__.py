"""The same bytes, whatever goes on around an answer: caches, preemption, company, cuts and restarts."""
