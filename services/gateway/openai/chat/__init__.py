"""POST /v1/chat/completions: the next message of a conversation."""
