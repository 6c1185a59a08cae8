"""The same bytes in all circumstances of an answer: caches, preemption, company, cuts and restarts."""
