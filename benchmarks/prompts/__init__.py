"""Our own prompts for the comparison of real models with other engines: chat, code, JSON, a long document."""
