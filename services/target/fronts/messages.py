"""The messages between a service and its fronts. Calls have numbers, which a front gives."""

from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from services.service.server_config import ServerConfig

Metadata: TypeAlias = tuple[tuple[str, Any], ...]  # texts; bytes for keys that end in -bin


class Message(Struct, tag=True, array_like=True):
    """A message in either direction."""


class Order(Message):
    """The service's first message: what to listen on, and what to forward."""

    server: ServerConfig
    services: tuple[str, ...]  # full names
    methods: dict[str, tuple[str, ...]]  # to forward, by service
    protos: tuple[bytes, ...]  # serialized descriptions of the services, for reflection; each after those it imports
    log_format: str
    log_level: str


class Listening(Message):
    """The front accepts connections, or cannot, because of the problem."""

    problem: str = ""


class Serving(Message):
    """The health to report from now on, and the share of the weights that is loaded."""

    is_serving: bool
    loaded_share: float


class Shown(Message):
    """Health checks report what the service wanted; it is also a sign of life."""


class Level(Message):
    """The level of messages to log from now on."""

    name: str


class Stop(Message):
    """The front is to close its connections and to end."""


class Begin(Message):
    """A client has begun a call."""

    call: int
    method: str
    metadata: Metadata
    peer: str
    identities: tuple[bytes, ...]
    deadline: float | None  # on the monotonic clock, which all processes of a machine share


class Read(Message):
    """The service wants the call's next request."""

    call: int


class Received(Message):
    """A call's next request; None if there are no more."""

    call: int
    request: bytes | None


class Headers(Message):
    """The metadata to send before the first response."""

    call: int
    metadata: Metadata


class Send(Message):
    """A response to send."""

    call: int
    response: bytes


class Sent(Message):
    """The response was handed to the connection, which has room for another."""

    call: int


class End(Message):
    """The status that ends a call, by its number."""

    call: int
    code: str  # its name
    details: str
    metadata: Metadata


class Drop(Message):
    """The client has left the call, or its deadline has passed."""

    call: int


class Ended(Message):
    """A call of this method, forwarded or not, has ended with this code."""

    method: str
    code: str


ToFront: TypeAlias = Order | Serving | Level | Stop | Read | Headers | Send | End
ToService: TypeAlias = Listening | Shown | Begin | Received | Sent | Drop | Ended

encoder = Encoder(enc_hook=str)  # a path becomes its name
to_front: "Decoder[ToFront]" = Decoder(ToFront, dec_hook=lambda kind, name: kind(name))
to_service: "Decoder[ToService]" = Decoder(ToService)
