"""Which predictions are verified beside each sequence's own row, and how they fared."""
