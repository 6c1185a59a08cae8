"""Programs of others against a gateway: each in an environment of its own, as they do not agree on what they need."""
