"""POST /v1/completions: a text is continued."""
