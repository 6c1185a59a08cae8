"""The names that dashboards and endpoint pickers of other engines look for."""

import contextlib
import socket
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric

from services.engine.config import ConfigError
from services.engine.request import Share
from services.target.metrics import target_metrics
from services.target.metrics.request_statistics import RequestStatistics
from services.target.metrics.target_load import TargetLoad
from services.target.metrics.target_metrics import TargetMetrics
from services.target.sequence.generation import Generation
from services.target.speculation.link.draft_links import DraftLinks
from services.telemetry import metrics_server
from services.telemetry.metrics_server import MetricsServer
from services.telemetry.open_tracing import open_tracing
from services.telemetry.telemetry_config import TelemetryConfig
from tests.harness.servers.server import RunningTarget, wait_until
from tests.unit.sequences import make_request, make_stream

SERVICES = Path(__file__).parents[3] / "services"
STEMS = {
    *("num_requests_waiting", "num_requests_running", "kv_cache_usage_perc", "cache_config_info"),
    "lora_requests_info",
    *("e2e_request_latency_seconds", "time_to_first_token_seconds", "inter_token_latency_seconds"),
    *("request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds"),
    *("request_prompt_tokens", "request_generation_tokens", "prompt_tokens", "generation_tokens"),
    *("prefix_cache_queries", "prefix_cache_hits", "request_success", "num_preemptions"),
    *("spec_decode_num_drafts", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens"),
    "spec_decode_num_accepted_tokens_per_pos",
}


def collect(target: RunningTarget, statistics: RequestStatistics, prefix: str) -> list[Metric]:
    load = TargetLoad(target.engine, statistics, lambda: 0)
    sessions = target.model.serving.sessions
    metrics = TargetMetrics(target.engine, load, statistics, DraftLinks, sessions, prefix=prefix, model_name="some")
    return [*metrics.collect()]


@pytest.mark.parametrize("prefix", ["vllm", "outrider"])
def test_the_shared_names_have_the_prefix_that_is_asked_for(target: RunningTarget, prefix: str) -> None:
    families = collect(target, RequestStatistics(), prefix)
    labels = {"model_name": "some", "engine": "0"}
    shared = {
        family.name for family in families if all(labels.items() <= each.labels.items() for each in family.samples)
    }
    assert shared >= {f"{prefix}:{stem}" for stem in STEMS - {"spec_decode_num_accepted_tokens_per_pos"}}
    assert {f"{prefix}:{stem}" for stem in STEMS} <= {family.name for family in families}
    assert all(family.name.startswith((f"{prefix}:", "outrider:")) for family in families)
    assert len({family.name for family in families}) == len(families)


async def test_callers_beyond_a_number_are_counted_together(
    target: RunningTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_metrics, "_MOST_CALLERS", 3)
    statistics = RequestStatistics()
    for index in range(50):
        request = make_request(share=Share(caller=f"ipv4:10.0.0.{index}:4000"))
        statistics.begin(Generation(0, request, make_stream()) for _ in range(2 if index in (7, 8) else 1))
    samples = [sample for family in collect(target, statistics, "outrider") for sample in family.samples]
    callers = [sample for sample in samples if sample.name == "outrider:caller_requests"]
    counts = {each.labels["caller"]: each.value for each in callers if each.labels["state"] == "waiting"}
    assert counts.pop("other") == 47
    assert counts == {"ipv4:10.0.0.7": 2, "ipv4:10.0.0.8": 2, "ipv4:10.0.0.0": 1}


def process_metrics() -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


def test_a_port_that_is_taken_is_named() -> None:
    server = MetricsServer("127.0.0.1:0", process_metrics())
    try:
        with pytest.raises(ConfigError, match=f"cannot listen on {server.address} for metrics: "):
            MetricsServer(server.address, CollectorRegistry())
    finally:
        server.close()


def test_scrapers_that_say_nothing_keep_no_thread_beyond_a_few() -> None:
    server = MetricsServer("127.0.0.1:0", process_metrics())
    host, port = server.address.split(":")
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(metrics_server._MOST_SCRAPES):
                stack.enter_context(socket.create_connection((host, int(port))))
            one_more = stack.enter_context(socket.create_connection((host, int(port))))
            assert one_more.recv(1) == b""  # hung up on
        wait_until(lambda: _is_served(server.address))  # once the others have gone
    finally:
        server.close()


def _is_served(address: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
        return b"process_open_fds" in answer.read()
    return False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("metrics_listen", "9400"),
        ("metrics_listen", "host:65536"),
        ("metrics_listen", ":1"),
        ("metrics_prefix", "other"),
        ("otlp_endpoint", "localhost:4317"),
        ("log_format", "xml"),
    ],
)
def test_a_bad_setting_is_named(field: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} is '{value}'; it must be"):
        TelemetryConfig(**{field: value})


def test_otlp_without_opentelemetry_is_refused_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "services.telemetry.tracing", None)
    with pytest.raises(ConfigError, match=r"otlp_endpoint is 'http://x:1', but .* pip install 'outrider\[tracing\]'"):
        open_tracing("http://x:1", "some")


def test_nothing_of_opentelemetry_is_loaded_unless_asked_for() -> None:
    importing = [path for path in SERVICES.rglob("*.py") if "\nfrom opentelemetry" in path.read_text()]
    assert importing == [SERVICES / "telemetry" / "tracing.py"]
