"""The RPCs: requests are admitted, checked field by field and handed on; the engine's events go back as messages."""
