"""outrider up: starts a target, with its draft and an HTTP gateway if wanted, by one command."""

import argparse
import importlib.util
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from pathlib import Path

from outrider import Client, ModelInfo, OutriderError
from services.cli import kept_weights
from services.cli.command_parser import CommandParser
from services.cli.service_pair import (
    PLACEMENTS,
    CoreAssignment,
    ModelPair,
    ServicePair,
    demo_models,
    device_of_draft,
    options_of_draft,
    running_pair,
)
from services.cli.service_process import ServiceFailedError, ServiceProcess, first_ended
from services.cli.terminal import Terminal
from services.engine.config import CPU, WEIGHT_CHOICES, ConfigError, resolve_weights_cache
from services.engine.decoder.weight_choice import AUTO
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.hub.fetch import fetch
from services.engine.hub.hub_name import SOURCES, ModelSource, read_source
from services.gateway.command import check_packages
from services.service.free_address import check_free
from services.service.named_option import NamedOption

_LISTEN, _METRICS = "127.0.0.1:50051", "127.0.0.1:9464"
_ASKED_SECONDS = 30.0  # for a target that hangs
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


def add_options(parser: CommandParser) -> None:
    """Add all options of the command to the parser."""
    parser.usage, parser.passes_to = "%(prog)s [option …] [-- OPTION-OF-TARGET …]", "target"
    _add_models(parser.add_argument_group("models"))
    _add_addresses(parser.add_argument_group("addresses"))
    _add_devices(parser.add_argument_group("devices"))
    further = "after --: options of `outrider target`, such as -- --weights int8 --context 8192 --kv-memory 4"
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help=further)


def _add_models(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--model",
        dest="models",
        action="append",
        type=NamedOption.parse,
        default=[],
        metavar="[NAME=]MODEL",
        help=f"{SOURCES}; several may be given, each with a name (default: the demo model)",
    )
    draft = "model of a draft service, or a head trained for --model (default: none, or the demo's draft)"
    group.add_argument("--draft", type=read_source, metavar="MODEL", help=draft)
    weights = "format of the draft's weights; auto is the fastest (default: %(default)s)"
    group.add_argument("--draft-weights", choices=WEIGHT_CHOICES, default=AUTO, help=weights)
    cache = (
        "folder that keeps the packed weights of both for the next start, or off (default: OUTRIDER_WEIGHTS_CACHE, or "
        "~/.cache/outrider/weights if the disk has room)"
    )
    group.add_argument("--weights-cache", type=Path, metavar="DIR", help=cache)


def _add_addresses(group: "argparse._ArgumentGroup") -> None:
    listen = "where the target serves gRPC (default: %(default)s)"
    group.add_argument("--listen", default=_LISTEN, metavar="HOST:PORT", help=listen)
    http = "also serve HTTP at this address, as `outrider gateway` does (default: no)"
    group.add_argument("--http", metavar="HOST:PORT", help=http)
    demo = "let callers of --http disconnect the draft and connect it again, to watch the text continue; not for others"
    group.add_argument("--allow-demo-controls", action="store_true", help=demo)


def _add_devices(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--device", default=CPU, help="of the target: cpu, cuda:N, or several GPUs cuda:N,cuda:M (default: %(default)s)"
    )
    group.add_argument(
        "--draft-device", metavar="DEVICE", help="of the draft (default: the target's, the last of several)"
    )
    cores = (
        "on a CPU, target and draft share all cores and take turns, or each gets half of them (default: %(default)s)"
    )
    group.add_argument("--cores", choices=PLACEMENTS, default="shared", help=cores)


def run(arguments: argparse.Namespace) -> int:
    """Run the services until one ends, or SIGINT or SIGTERM stops them; returns the exit code."""
    out = Terminal(sys.stdout)
    models = _models(arguments.models, arguments.draft) if arguments.models else demo_models()
    if models is None:
        Terminal(sys.stderr).error("outrider up: there is no demo model here; name a model with --model")
        return 1
    try:
        _check(arguments)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        models = models.fetched()
        _check_draft_options(models, arguments)
        return _run(models, arguments, out)
    except (CheckpointError, ConfigError, ServiceFailedError) as error:
        Terminal(sys.stderr).error(f"outrider up: {error}")
        return 1
    except KeyboardInterrupt:
        out.note("outrider is down")
        return 0


def _check_draft_options(models: ModelPair, arguments: argparse.Namespace) -> None:
    """Raise ConfigError for options of a draft service where --draft is a head."""
    device, weights = arguments.draft_device, arguments.draft_weights
    first, *_ = arguments.device.split(",")
    if models.head is not None and device not in (None, first):
        raise ConfigError(f"draft_device is {device}, but a head runs on its model's device, {first}")
    if models.head is not None and weights != AUTO:
        raise ConfigError(f"draft_weights is {weights}, but a head is held in its model's --weights")


def _run(models: ModelPair, arguments: argparse.Namespace, out: Terminal) -> int:
    draft_device = device_of_draft(arguments.device, arguments.draft_device)
    cached = _weights_cache(models, arguments)
    cores = PLACEMENTS[arguments.cores]()
    with (
        _metrics_address(arguments.options) as metrics,
        _admin_address(arguments) as admin,
        running_pair(
            models,
            listen=arguments.listen,
            options=[
                *cached.get(arguments.device, ()),
                *("--device", arguments.device),
                *_flag("--admin-listen", admin),
                *_flag("--metrics-listen", metrics),
                *arguments.options,
            ],
            draft_options=[
                *cached.get(draft_device, ()),
                *options_of_draft(arguments.device, draft_device, arguments.draft_weights),
            ],
            cores=cores,
            serves_early=True,
        ) as pair,
    ):
        if models.draft and arguments.device == draft_device == CPU:
            Terminal(sys.stderr).note(cores.describe())
        info = None if _has_tls(arguments.options) else _info(pair.target.address)
        _print_calls(pair, metrics, out, info, models.predictor)
        return _serve(pair, arguments.http, _flag("--allow-demo-controls", admin), out)


def _weights_cache(models: ModelPair, arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Return the options for packed weights, by the device of the service that gets them."""
    named = [arguments.device, device_of_draft(arguments.device, arguments.draft_device)]
    if (given := arguments.weights_cache) is not None:
        return {device: ["--weights-cache", str(given)] for device in named}
    is_chosen = any(option.startswith(("--weights-cache", "--config")) for option in arguments.options)
    if is_chosen or resolve_weights_cache() is not None or CPU not in named:
        return {}
    if (folder := kept_weights.folder_for(fetch(source).path for source in models.sources)) is None:
        return {}
    kept_weights.remove_unused(folder)
    Terminal(sys.stderr).note(f"packed weights are kept in {folder} for the next start; --weights-cache off keeps none")
    return {CPU: ["--weights-cache", str(folder)]}


def _models(options: Seq[NamedOption], draft: ModelSource | None) -> ModelPair:
    first, *further = options
    named = tuple((option.name, read_source(option.value)) for option in further)
    return ModelPair(read_source(first.value), draft, first.name, named)


def _serve(pair: ServicePair, http: str | None, gateway_options: list[str], out: Terminal) -> int:
    """Serve HTTP if wanted, and return the target's exit code; raises ServiceFailedError if the gateway ends first."""
    target = pair.target
    with _gateway(http, target.address, gateway_options) as gateway:
        if gateway is not None:
            out.text(f"OpenAI's API is at http://{gateway.address}/v1\n")
            shown = "the draft at work" if pair.draft else "where each token comes from"
            out.text(f"a page that shows {shown} is at http://{gateway.address}/\n")
        if pair.draft is not None:
            pair.draft.wait_until_serving()
            out.note("the draft is loaded, and predicts for the target from now on")
        if gateway is not None and first_ended(target, gateway) is gateway:
            raise ServiceFailedError(f"the gateway ended with code {gateway.wait()}")
        return target.wait()


def _print_calls(pair: ServicePair, metrics: str | None, out: Terminal, info: ModelInfo | None, predictor: str) -> None:
    """Print what a user may run next, without options that have their default values, and what the colours mean.

    `info` is what the target says of its model, `predictor` what was given to predict for it.
    """
    address = pair.target.address
    where = "" if address == _LISTEN else f" --address {address}"
    out.heading(f"outrider is up on {address}; Ctrl-C stops it. In another terminal:")
    out.text(f'  outrider generate "def quicksort" --max-tokens 100{where}\n')
    if info is not None and info.has_chat_template:
        out.text(f"  outrider chat{where}\n")
    if metrics == _METRICS and importlib.util.find_spec("rich"):  # which `top` needs
        out.text("  outrider top\n")
    out.legend(predictor or ("the head" if info is not None and info.head else ""), lookup=True)


def _info(address: str) -> ModelInfo | None:
    """Return what a target says of its first model; None if it refuses to say, or does not answer."""
    try:
        with Client(_local(address), max_retries=0) as client:
            return client.model_info(timeout=_ASKED_SECONDS)
    except OutriderError:
        return None


def _local(address: str) -> str:
    """Return the address at which this machine reaches a service that listens on `address`."""
    host, _, port = address.rpartition(":")
    return f"{_LOOPBACK.get(host, host)}:{port}"


def _has_tls(options: Seq[str]) -> bool:
    return any(option.startswith("--tls") for option in options)


@contextmanager
def _metrics_address(options: Seq[str]) -> Iterator[str | None]:
    """Yield where the target serves the metrics that `outrider top` shows; None if the target's own options say it.

    One `outrider up` of this machine has the port of `top`, others get a free one, which their log names.
    """
    if any(option.startswith(("--metrics-listen", "--config")) for option in options):
        yield None
        return
    with socket.socket(socket.AF_UNIX) as claim:
        try:
            claim.bind(f"\0outrider-up-{_METRICS}")  # an abstract name, which is free again when this process ends
            check_free("metrics_listen", _METRICS)
        except (OSError, ConfigError):
            yield "127.0.0.1:0"
        else:
            yield _METRICS


def _flag(name: str, value: str | None) -> list[str]:
    return [] if value is None else [name, value]


@contextmanager
def _admin_address(arguments: argparse.Namespace) -> Iterator[str | None]:
    """Yield the target's admin address for the gateway's demo controls, if allowed: a socket in a private folder."""
    if not arguments.allow_demo_controls:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="outrider-") as folder:
        yield f"unix:{folder}/admin"


def _check(arguments: argparse.Namespace) -> None:
    """Raise ConfigError for what would fail only after the models are loaded."""
    if arguments.draft and not arguments.models:
        raise ConfigError("--draft is the draft of --model, which is not given")
    check_free("listen", arguments.listen)
    if arguments.http:
        check_packages()
        check_free("http", arguments.http)
    if arguments.allow_demo_controls and not arguments.http:
        raise ConfigError("--allow-demo-controls is for the callers of --http, which is not given")
    if arguments.allow_demo_controls and any(option.startswith("--admin") for option in arguments.options):
        raise ConfigError("--allow-demo-controls has an admin address of its own; it goes with no other of the target")
    if arguments.http and _has_tls(arguments.options):
        problem = "--http asks the target in clear text; with --tls options of it, start `outrider gateway` by itself"
        raise ConfigError(problem)


@contextmanager
def _gateway(listen: str | None, target: str, further: list[str]) -> Iterator[ServiceProcess | None]:
    """Run the gateway in front of a target if `listen` is given; raises ServiceFailedError if it does not start."""
    if listen is None:
        yield None
        return
    options = ["--target", _local(target), "--listen", listen, *further]
    with ServiceProcess("gateway", options, cores=CoreAssignment.shared().target) as gateway:
        gateway.wait_until_serving()
        yield gateway
