"""RunningRequests: the requests of the contract by their callers and names, which are unique while they run."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from services.service.errors import AlreadyExistsError, InvalidRequestError, NotFoundError, Violation
from services.target.contracts.abortable_calls import AbortableCall, AbortableCalls

_MOST_ENDED = 4096  # whose names are known after their end
_LONGEST_SHOWN = 64  # characters of a name in an error


class RunningRequests:
    """For one event loop; an owner can abort only its own requests."""

    def __init__(self) -> None:
        self._calls = AbortableCalls()
        self._ended: OrderedDict[tuple[str, str], None] = OrderedDict()

    @contextmanager
    def begin(self, owner: str, name: str) -> Iterator[AbortableCall]:
        """A request that runs until this context ends; raises AlreadyExistsError if one of that name runs."""
        if name and self._calls.has(owner, name):
            raise AlreadyExistsError(f"request_id {name[:_LONGEST_SHOWN]!r} is the name of a request that still runs")
        try:
            with self._calls.begin(owner, name) as call:
                yield call
        finally:
            if name:
                self._ended[owner, name] = None
                self._ended.move_to_end((owner, name))
                while len(self._ended) > _MOST_ENDED:
                    self._ended.popitem(last=False)

    def abort(self, owner: str, name: str) -> bool:
        """Abort a request; returns False if it has ended. Raises NotFoundError if there was none, or long ago."""
        if not name:
            raise InvalidRequestError([Violation("request_id", "is empty; allowed: the name of a request")])
        if self._calls.has(owner, name):
            self._calls.abort(owner, name)
            return True
        if (owner, name) not in self._ended:
            raise NotFoundError(f"request_id {name[:_LONGEST_SHOWN]!r} is not the name of a request of this caller")
        return False

    def abort_all(self, owner: str) -> int:
        """Abort all requests, and return how many there are."""
        return self._calls.abort_all(owner)
