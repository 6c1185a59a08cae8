"""Load reports: what gRPC's load balancers read in the trailers of an answer, as gRFC A51 has it."""

import socket
from contextlib import suppress
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from services.telemetry.load_report import ASKED_BY, TRAILER, LoadReport
from tests.harness.network.cutting_proxy import CuttingProxy
from tests.harness.servers.server import RunningTarget
from tests.rpc.harness.requests import stream_request

_DOUBLE, _MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE, descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_STRING = descriptor_pb2.FieldDescriptorProto.TYPE_STRING


@pytest.fixture(scope="module")
def report_class() -> Any:
    """The message OrcaLoadReport, as far as its numbers are ours; they are those of xds/data/orca/v3."""
    file = descriptor_pb2.FileDescriptorProto(name="orca.proto", package="orca", syntax="proto3")
    report = file.message_type.add(name="OrcaLoadReport")
    for name, number in (("mem_utilization", 2), ("rps_fractional", 6), ("application_utilization", 9)):
        report.field.add(name=name, number=number, type=_DOUBLE, label=1)
    entry = report.nested_type.add(name="NamedMetricsEntry", options={"map_entry": True})
    entry.field.add(name="key", number=1, type=_STRING, label=1)
    entry.field.add(name="value", number=2, type=_DOUBLE, label=1)
    kind = ".orca.OrcaLoadReport.NamedMetricsEntry"
    report.field.add(name="named_metrics", number=8, type=_MESSAGE, type_name=kind, label=3)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("orca.OrcaLoadReport"))


def test_a_report_is_the_message_that_balancers_read(report_class: Any) -> None:
    named = {"num_requests_waiting": 3.0, "kv_cache_usage_perc": 0.25}
    data = LoadReport(mem_utilization=0.25, application_utilization=1.5, rps=7.25, named_metrics=named).encode()
    report = report_class.FromString(data)
    assert (report.mem_utilization, report.application_utilization, report.rps_fractional) == (0.25, 1.5, 7.25)
    assert dict(report.named_metrics) == named
    assert report.SerializeToString(deterministic=True) == report_class(
        mem_utilization=0.25, application_utilization=1.5, rps_fractional=7.25, named_metrics=named
    ).SerializeToString(deterministic=True)


class HearingProxy(CuttingProxy):
    """Keeps what the server says: gRPC's own clients show such trailers to their balancers alone."""

    def __init__(self, port: int) -> None:
        self.heard = b""
        super().__init__(port)

    def _forward(self, source: socket.socket, sink: socket.socket, max_bytes: float, is_request: bool) -> None:
        with suppress(OSError):  # cut
            while data := source.recv(65536):
                self.heard += b"" if is_request else data
                sink.sendall(data)


def reports(target: RunningTarget, *metadata: tuple[str, str]) -> list[bytes]:
    """The reports in a call's trailers; each follows its length and a zero, which marks bytes sent as they are."""
    with HearingProxy(int(target.address.rpartition(":")[2])) as proxy:
        with grpc.insecure_channel(proxy.address) as channel:
            assert list(GenerationServiceStub(channel).StreamGenerate(stream_request(), timeout=60, metadata=metadata))
        _, *behind = proxy.heard.split(TRAILER.encode())
    return [each[2 : 1 + each[0]] for each in behind]


def test_a_load_report_is_sent_only_if_asked_for(target: RunningTarget, report_class: Any) -> None:
    assert reports(target) == []
    (data,) = reports(target, (ASKED_BY, "bin"))
    report = report_class.FromString(data)
    assert report.named_metrics.keys() == {"num_requests_waiting", "num_requests_running", "kv_cache_usage_perc"}
    assert 0 <= report.mem_utilization <= 1


def test_a_server_may_send_load_reports_to_all_clients(target: RunningTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target.server._servicer, "_load_reports", True)
    assert len(reports(target)) == 1
