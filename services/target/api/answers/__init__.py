"""The answers of a generation: ranked, or read as a message's parts, where a request asks for that."""
