"""POST /v1/completions: continues a text."""
