"""CheckpointError: a model folder that cannot be served as it is."""


class CheckpointError(ValueError):
    """One sentence that names the file, what in it is wrong, and what would be right."""
