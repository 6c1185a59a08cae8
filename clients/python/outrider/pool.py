"""Pool: the servers that a client may talk to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from outrider.retry import Attempts, RetryPolicy

Stub = TypeVar("Stub")


@dataclass(frozen=True, slots=True)
class Server(Generic[Stub]):
    """The calls of one server, and that which asks for its health, with no message and for an answer as bytes."""

    stub: Stub
    check: Callable[..., Any]


class Pool(Generic[Stub]):
    """One server per address, and the address that answered last."""

    def __init__(self, addresses: Sequence[str], connect: Callable[[str], Server[Stub]], policy: RetryPolicy) -> None:
        """Raises ValueError without an address, TypeError for an address that is not text."""
        if not addresses:
            raise ValueError('a client needs at least one address, such as "localhost:50051"')
        if wrong := [address for address in addresses if not isinstance(address, str)]:
            raise TypeError(f"an address is text, such as 'localhost:50051', not {wrong[0]!r}")
        self.servers = [connect(address) for address in addresses]
        self.preferred = 0
        """Index of the address that calls start with: all threads may set it, the last one wins."""
        self.is_closed = False
        self._policy = policy

    def attempts(self, timeout: float | None) -> Attempts:
        """The attempts at a new call, which may take `timeout` seconds in all."""
        return Attempts(self._policy, len(self.servers), first=self.preferred, timeout=timeout)
