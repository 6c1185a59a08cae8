"""ZmqConfig: where KV events are published by ZMQ."""

import importlib.util
import re
from dataclasses import dataclass

from services.engine.config import ConfigError

_ADDRESS = re.compile(r"tcp://(\*|\[?[\w.:-]+\]?):\d{1,5}|ipc://.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZmqConfig:
    """The addresses of a publisher, which subscribers may share, and of one who sends batches again.

    As vLLM has it, `tcp://*:PORT` and `ipc://PATH` are listened at, and `tcp://HOST:PORT` is connected to.
    """

    endpoint: str
    replay: str | None = None  # always listened at
    topic: str | None = None  # default: kv@HOST@MODEL

    def __post_init__(self) -> None:
        if any(importlib.util.find_spec(name) is None for name in ("zmq", "msgspec")):
            raise ConfigError("kv_events_zmq needs packages that are not installed: pip install 'outrider[zmq]'")
        for name, address in self._addresses:
            if not _ADDRESS.fullmatch(address):
                raise ConfigError(f"{name} is {address!r}; it must be tcp://*:PORT, tcp://HOST:PORT or ipc://PATH")

    @property
    def network_addresses(self) -> list[tuple[str, str]]:
        """Options and HOST:PORT of those that are not paths."""
        scheme = "tcp://"
        return [(name, each.removeprefix(scheme)) for name, each in self._addresses if each.startswith(scheme)]

    @property
    def _addresses(self) -> list[tuple[str, str]]:
        replay = [] if self.replay is None else [("kv_events_replay", self.replay)]
        return [("kv_events_zmq", self.endpoint), *replay]
