"""HTTP in front of the RPC: the APIs that other tools speak, by a stateless client of one target or several."""
