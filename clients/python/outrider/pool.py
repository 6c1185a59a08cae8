"""Pool: the servers that a client may talk to."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from outrider.retry import Attempts, RetryPolicy

Stub = TypeVar("Stub")


class Pool(Generic[Stub]):
    """One stub per address, and the address that answered last."""

    def __init__(self, addresses: Sequence[str], connect: Callable[[str], Stub], policy: RetryPolicy) -> None:
        """Raises ValueError without an address, TypeError for an address that is not text."""
        if not addresses:
            raise ValueError('a client needs at least one address, such as "localhost:50051"')
        if wrong := [address for address in addresses if not isinstance(address, str)]:
            raise TypeError(f"an address is text, such as 'localhost:50051', not {wrong[0]!r}")
        self.stubs = [connect(address) for address in addresses]
        self.preferred = 0
        """Index of the address that calls start with: all threads may set it, the last one wins."""
        self.is_closed = False
        self._policy = policy

    def attempts(self, timeout: float | None) -> Attempts:
        """The attempts at a new call, which may take `timeout` seconds in all."""
        return Attempts(self._policy, len(self.stubs), first=self.preferred, timeout=timeout)
