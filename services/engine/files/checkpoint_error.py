"""CheckpointError: a model folder or file cannot be served."""


class CheckpointError(ValueError):
    """The message is one sentence that names the file, what is wrong in it, and what is allowed."""
