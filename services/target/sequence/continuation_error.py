"""ContinuationError: the tokens of a continuation are not those that its generation has sent."""


class ContinuationError(ValueError):
    """The message says which token is the wrong one, and the rule that forbids it."""
