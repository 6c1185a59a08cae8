"""The command-line options that both services have, and the configurations made from them."""

import argparse
import math
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from pathlib import Path

from services.engine.config import (
    KV_FORMATS,
    WEIGHT_CHOICES,
    EngineConfig,
    resolve_isa,
    resolve_threads,
    resolve_weights_cache,
)
from services.engine.decoder.native import isas
from services.engine.hub.hub_name import ModelSource
from services.service.server_config import ServerConfig
from services.telemetry.telemetry_config import LOG_FORMATS, METRICS_PREFIXES, TelemetryConfig

_GIB = 1 << 30
_DEFAULTS = {
    field.name: field.default for field in (*fields(EngineConfig), *fields(ServerConfig), *fields(TelemetryConfig))
}


class OptionGroups:
    """The groups of a service's options, in the order in which `--help` shows them; an empty one is not shown."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.first = parser.add_argument_group("needed first")
        self.model = parser.add_argument_group("model")
        self.device = parser.add_argument_group("device")
        self.speculation = parser.add_argument_group("speculation")
        self.limits = parser.add_argument_group("limits")
        self.security = parser.add_argument_group("security")
        self.observability = parser.add_argument_group("observability")
        self.rare = parser.add_argument_group("rarely needed")


def add_options(groups: OptionGroups) -> None:
    """Add all options but the model's; each sets the field of its name in one of the three configurations."""
    _add_first(groups.first)
    _add_device(groups.device)
    _add_limits(groups.limits)
    _add_security(groups.security)
    _add_observability(groups.observability)
    _add_rare(groups.rare)


def engine_config(arguments: argparse.Namespace, model: ModelSource) -> EngineConfig:
    """Return the configuration of a model's engine; raises ConfigError for an invalid value."""
    # A field without an option in this service keeps its default.
    names = [field.name for field in fields(EngineConfig) if field.name != "model" and field.name in arguments]
    values = {name: getattr(arguments, name) for name in names}
    values["isa"] = arguments.isa or resolve_isa()
    values["weights_cache"] = resolve_weights_cache(arguments.weights_cache)
    values["threads"] = resolve_threads(arguments.threads)
    return EngineConfig(model=model, **values)


def server_config(arguments: argparse.Namespace) -> ServerConfig:
    """Return the server's configuration; raises ConfigError for an invalid value."""
    return ServerConfig(**{field.name: getattr(arguments, field.name) for field in fields(ServerConfig)})


def telemetry_config(arguments: argparse.Namespace) -> TelemetryConfig:
    """Return the telemetry's configuration; raises ConfigError for an invalid value."""
    return TelemetryConfig(**{field.name: getattr(arguments, field.name) for field in fields(TelemetryConfig)})


def _add_first(group: "argparse._ArgumentGroup") -> None:
    config = "a TOML file of these options, such as `kv-memory = 8`; the command line overrides it"
    group.add_argument("--config", type=Path, metavar="FILE", help=config)
    _add(group, "listen", "HOST:PORT, with port 0 for a free one, or unix:PATH")
    _add(
        group,
        "device",
        "compute device: cpu, cuda:N for GPU number N, or cuda:N,cuda:M for a target's model on several",
    )
    _add(group, "weights", "weight format: as stored, a given format, or the fastest (auto)", choices=WEIGHT_CHOICES)
    _add(group, "context_length", "tokens of prompt and answer", shown="the model's", flag="--context", read=int)
    _add(group, "kv_memory", "memory limit of the KV cache, in GiB", shown="2, or a GPU's free memory", read=gibibytes)
    _add(group, "max_sequences", "sequences that run at once", read=int)
    tokens = "accept only calls with one of these tokens; `outrider token` makes them"
    _add(group, "tokens_file", tokens, shown="no token is needed", read=Path)
    scraped = "HOST:PORT that Prometheus scrapes, with port 0 for a free one"
    _add(group, "metrics_listen", scraped, shown="none", metavar="ADDRESS")


def _add_device(group: "argparse._ArgumentGroup") -> None:
    _add(group, "isa", "instruction set", shown="OUTRIDER_ISA, or else the best", choices=isas())
    _add(group, "threads", "compute threads on the host", shown="one per core", read=int)
    cache = "folder that caches packed weights for the next start, on the CPU, or off"
    _add(group, "weights_cache", cache, shown="OUTRIDER_WEIGHTS_CACHE, or else off", read=Path, metavar="DIR")
    _add(group, "kv", "format of keys and values in the KV cache", choices=KV_FORMATS)
    _add(group, "gpu_memory_fraction", "limit of a GPU's memory in use, by all its processes", read=float)
    _add_switch(group, "prefix_cache", "compute every prompt in full, without the prefix cache")


def _add_limits(group: "argparse._ArgumentGroup") -> None:
    _add(group, "max_rows", "rows in one pass", read=int)
    _add(group, "max_queue", "queued requests beside the running ones", read=int)
    share = "--max-sequences plus half of --max-queue"
    _add(group, "max_streams_per_caller", "requests of one caller at once", shown=share, read=int)
    _add(group, "max_waiting_tokens", "prompt tokens that wait for prefill", read=int)


def _add_security(group: "argparse._ArgumentGroup") -> None:
    _add(group, "tls_certificate", "certificate chain, PEM", shown="no TLS", flag="--tls-cert", read=Path)
    _add(group, "tls_key", "its private key, PEM", shown="no TLS", read=Path)
    authorities = "accept only clients with certificates from these authorities, PEM"
    _add(group, "tls_client_ca", authorities, shown="any client", read=Path)
    insecure = "allow clear text beyond this machine, for networks that are safe otherwise"
    group.add_argument("--insecure", action="store_true", help=insecure)
    _add(group, "admin_listen", "address of the AdminService, on this machine only", shown="none")


def _add_observability(group: "argparse._ArgumentGroup") -> None:
    _add(group, "metrics_prefix", "prefix of the metrics that other engines have too", choices=METRICS_PREFIXES)
    _add(group, "otlp_endpoint", "http://HOST:PORT of an OpenTelemetry collector", shown="none", metavar="URL")
    _add(group, "log_format", "format of the log's lines", choices=LOG_FORMATS)
    reports = "report the load to gRPC's load balancers with every answer, not only on request"
    group.add_argument("--load-reports", action="store_true", help=reports)


def _add_rare(group: "argparse._ArgumentGroup") -> None:
    _add(group, "kv_blocks", "blocks of the KV cache", shown="as many as --kv-memory holds", read=int)
    _add(group, "prefill_chunk", "prefill tokens of one prompt in one pass", shown="256, or --max-rows", read=int)
    _add(group, "stream_capacity", "tokens buffered for a slow reader", read=int)
    _add(group, "reader_timeout", "seconds after which a stream that is not read is ended", read=float)
    _add(group, "max_text_calls", "Tokenize and Detokenize calls at once", read=int)
    _add(group, "max_held_bytes", "bytes of large requests, held until their calls end", read=int)
    _add(group, "drain_seconds", "seconds that running streams get to finish when the server ends", read=float)
    late = "seconds after which an engine step counts as late, or as hung after twice that; more if steps are slow"
    _add(group, "hang_seconds", late, read=float)
    age = "seconds after which a client is asked to reconnect"
    _add(group, "max_connection_age", age, shown="never", read=float, metavar="SECONDS")
    grace = "seconds that its streams may continue after that"
    _add(group, "max_connection_age_grace", grace, read=float, metavar="SECONDS")


def _add(
    group: "argparse._ArgumentGroup",
    field: str,
    help_text: str,
    *,
    flag: str | None = None,
    shown: str | None = None,
    read: Callable[[str], object] = str,
    choices: Iterable[str] | None = None,
    metavar: str | None = None,
) -> None:
    default = _DEFAULTS.get(field)
    group.add_argument(
        flag or f"--{field.replace('_', '-')}",
        dest=field,
        type=read,
        choices=choices and list(choices),
        default=None if default is MISSING else default,
        metavar=metavar or (None if choices else field.rpartition("_")[2].upper()),
        help=f"{help_text} (default: {shown or '%(default)s'})",
    )


def _add_switch(group: "argparse._ArgumentGroup", field: str, help_text: str) -> None:
    """Add an option that switches off a setting that is on by default."""
    group.add_argument(f"--no-{field.replace('_', '-')}", dest=field, action="store_false", help=help_text)


def gibibytes(text: str) -> int:
    """Parse an option's size in GiB, and return it in bytes; raises ArgumentTypeError."""
    size = float(text) * _GIB
    if not 1 <= size < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; it must be a finite number of GiB above 0")
    return int(size)
