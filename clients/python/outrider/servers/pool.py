"""Pool: the servers that a client may use, and the header by which a proxy may choose among its own."""

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from outrider.servers.channel import Metadata
from outrider.servers.retry import Attempts, Contact, RetryPolicy
from outrider.v1 import common_pb2, generation_pb2

PREFIX_HEADER = "outrider-prefix"
_MOST_BYTES = 1024  # of a beginning; of token ids, each has four

Stub = TypeVar("Stub")


@dataclass(frozen=True, slots=True)
class Server(Generic[Stub]):
    """The calls of one server, and the `metadata` that go with each of them."""

    stub: Stub
    metadata: Metadata = ()


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
        self.cancels: set[Callable[[], None]] = set()
        """What ends the streams that are under way."""
        self._policy = policy
        self._contact = Contact()

    def close(self) -> None:
        """End the streams that are under way, those too that wait for a server, and let none begin."""
        self.is_closed = True
        for cancel in self.cancels.copy():  # at once: other threads may begin and end theirs
            cancel()

    def attempts(self, timeout: float | None) -> Attempts:
        """The attempts at a new call, which may take `timeout` seconds in all."""
        return Attempts(self._policy, len(self.servers), first=self.preferred, timeout=timeout, contact=self._contact)


def prefix_metadata(request: generation_pb2.StreamGenerateRequest) -> Metadata:
    """A hash of the first KiB of the prompt: prompts that begin alike find the server that has that in its cache."""
    beginning = bytes(itertools.islice(_bytes_of(request.prompt), _MOST_BYTES))
    return ((PREFIX_HEADER, hashlib.blake2s(beginning, digest_size=8).hexdigest()),)


def _bytes_of(prompt: common_pb2.Prompt) -> Iterator[int]:
    match prompt.WhichOneof("input"):
        case "text":
            yield from prompt.text[:_MOST_BYTES].encode()
        case "token_ids":
            for token_id in prompt.token_ids.ids:
                yield from token_id.to_bytes(4, "little")
        case "chat":
            for message in prompt.chat.messages:
                yield from f"{message.role}\n{message.content[:_MOST_BYTES]}\n".encode()
                for part in message.parts:
                    yield from part.SerializeToString()
