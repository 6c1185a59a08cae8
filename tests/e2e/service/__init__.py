"""The services as operators see them: commands, figures, logs, metrics, and their ends."""
