"""Several models, their adapters, their files, and how they come and go."""
