"""Who follows what the prefix cache holds: the journal's batches in order, and a publisher of them by ZMQ."""
