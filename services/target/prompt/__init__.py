"""Prompts: texts and conversations to token ids, beside everything else that the service does."""
