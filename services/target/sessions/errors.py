"""What may be wrong with the use of a session."""


class UnknownSessionError(LookupError):
    """The caller has no session of that name: there was none, or it has ended."""


class SessionExistsError(ValueError):
    """The caller has another session of that name."""


class SessionQuotaError(ValueError):
    """Sessions hold as much as they may; `of_owner` says whether those of the caller do, rather than everybody's."""

    def __init__(self, problem: str, *, of_owner: bool) -> None:
        super().__init__(problem)
        self.of_owner = of_owner
