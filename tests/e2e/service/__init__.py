"""The services as those see them who run them: commands, figures, logs, metrics, and what ends them."""
