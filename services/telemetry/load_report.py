"""LoadReport: a server's load, as gRPC's load balancers read it from the trailers of its answers (gRFC A51)."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

TRAILER = "endpoint-load-metrics-bin"
ASKED_BY = "endpoint-load-metrics-format"
"""The key of a call's metadata that requests a report, with any value."""

_DOUBLE, _BYTES = 1, 2  # wire types


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """The fields of xds.data.orca.v3.OrcaLoadReport that are known here."""

    mem_utilization: float
    application_utilization: float
    rps: float  # requests per second
    named_metrics: Mapping[str, float] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the message's bytes, encoded by hand: four fields do not justify a dependency on its proto."""
        named = [
            _field(8, _BYTES, _sized(_field(1, _BYTES, _sized(name.encode())) + _field(2, _DOUBLE, _double(value))))
            for name, value in self.named_metrics.items()
        ]
        numbers = ((2, self.mem_utilization), (6, self.rps), (9, self.application_utilization))
        return b"".join([*(_field(number, _DOUBLE, _double(value)) for number, value in numbers), *named])


def _field(number: int, wire_type: int, payload: bytes) -> bytes:
    return bytes([number << 3 | wire_type]) + payload


def _double(value: float) -> bytes:
    return struct.pack("<d", value)


def _sized(payload: bytes) -> bytes:
    assert len(payload) < 1 << 7  # so that the length is one byte
    return bytes([len(payload)]) + payload
