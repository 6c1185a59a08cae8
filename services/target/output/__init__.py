"""What becomes of drawn tokens: text that may be released, records, the end, each as an event of the sequence."""
