"""The errors of sessions."""


class UnknownSessionError(LookupError):
    """The caller has no session of that name: there was none, or it has ended."""


class SessionExistsError(ValueError):
    """The caller already has a session of that name."""


class SessionQuotaError(ValueError):
    """Sessions hold as many blocks as they may; `of_owner` is whether the limit is the caller's, not the server's."""

    def __init__(self, problem: str, *, of_owner: bool) -> None:
        super().__init__(problem)
        self.of_owner = of_owner
