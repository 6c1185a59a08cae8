"""From drawn tokens to a sequence's events: text that may be released, records, and the end."""
